package xdr_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/xdr"
)

// The vectors of this file were computed by two independent encoders from the
// layouts of RFC 5531 and RFC 1833.
const (
	goldenSysCred = "00000001000000245f00000100000007636c69656e743100000003e8000003e8" +
		"00000002000003e80000001b"
	goldenGetAddr     = "000186a3000000030000000472646d610000000000000000"
	goldenUaddr       = "0000000f3139322e302e322e372e37382e383100"
	goldenSuccess     = "010203040000000100000000000000000000000000000000"
	goldenProgMis     = "0102030400000001000000000000000000000000000000020000000300000003"
	goldenRPCMis      = "010203040000000100000001000000000000000200000002"
	goldenTooWeak     = "0102030400000001000000010000000100000005"
	goldenGarbageArgs = "010203040000000100000000000000000000000000000004"
	goldenMark        = "80000028"
)

// goldenCall is the null call of NFSv3 with an AUTH_SYS credential.
const goldenCall = "010203040000000000000002000186a30000000300000000" + goldenSysCred + "0000000000000000"

// unhex decodes a constant of the tests; blanks are ignored.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// dirty returns an empty slice over memory full of 0xa5, so that octets an
// encoder forgets to write show.
func dirty(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 0xa5
	}
	return b[:0]
}

func TestGoldenRPCBind(t *testing.T) {
	var b []byte
	b = xdr.AppendUint32(xdr.AppendUint32(b, 100003), 3)
	b = xdr.AppendString(xdr.AppendString(xdr.AppendString(b, "rdma"), ""), "")
	if got := hex.EncodeToString(b); got != goldenGetAddr {
		t.Errorf("GETADDR args = %s, want %s", got, goldenGetAddr)
	}
	if got := hex.EncodeToString(xdr.AppendString(nil, "192.0.2.7.78.81")); got != goldenUaddr {
		t.Errorf("GETADDR result = %s, want %s", got, goldenUaddr)
	}
	d := xdr.NewDecoder(unhex(t, goldenUaddr))
	if got := d.String(64); got != "192.0.2.7.78.81" || d.End() != nil {
		t.Errorf("universal address = %q, %v", got, d.End())
	}
}
