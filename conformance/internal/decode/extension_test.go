package decode

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestExtensions: what each message says, from the test vectors of the engine; every
// prefix is too short.
func TestExtensions(t *testing.T) {
	for _, tt := range []struct {
		op      verbs.Opcode
		payload string
		want    string
	}{
		{verbs.OpImmediate, "0102030405060708", " | data=0102030405060708"},
		{verbs.OpImmediateSE, "0807060504030201", " | data=0807060504030201"},
		{
			verbs.OpAtomicRequest,
			"00000000" + "00000003" + "11223344" + "0000000000001000" + "0000000000000005" + "8000000000000000" +
				"0000000000000000" + "ffffffffffffffff",
			" | FetchAdd id=3 stag=11223344 to=0x1000 operand=0x5 mask=0x8000000000000000",
		},
		{
			verbs.OpAtomicRequest,
			"00000002" + "00000004" + "11223344" + "0000000000001000" + "0000000000000007" + "00000000000000ff" +
				"0000000000000005" + "ffffffffffffffff",
			" | CmpSwap id=4 stag=11223344 to=0x1000 operand=0x7 mask=0xff compare=0x5 compare_mask=0xffffffffffffffff",
		},
		{verbs.OpAtomicResponse, "00000004" + "0000000000000005", " | id=4 old=0x5"},
		{verbs.OpFlushRequest, "11223344" + "00010000" + "0000000000001000" + "00000003", " | stag=11223344 len=65536 to=0x1000 flags=0x03"},
		{verbs.OpFlushResponse, "", ""},
		{verbs.OpVerifyRequest, "11223344" + "00000020" + "0000000000001000", " | stag=11223344 len=32 to=0x1000 hash="},
		{verbs.OpVerifyResponse, "8a9136aa", " | hash=8a9136aa"},
		{verbs.OpAtomicWriteRequest, "11223344" + "00000008" + "0000000000001010" + "0102030405060708", " | stag=11223344 to=0x1010 data=0102030405060708"},
		{verbs.OpAtomicWriteResponse, "", ""},
	} {
		p, err := hex.DecodeString(tt.payload)
		if err != nil {
			t.Fatal(err)
		}
		var x Extension
		if !x.parse(tt.op, p) {
			t.Errorf("%v: %d octets are too short", tt.op, len(p))
		}
		var b strings.Builder
		if x.text(&b, tt.op); b.String() != tt.want {
			t.Errorf("%v: got %q, want %q", tt.op, b.String(), tt.want)
		}
		least := len(p)
		if tt.op == verbs.OpVerifyResponse {
			least = 1 // hashes differ in length
		}
		for n := range least {
			if x.parse(tt.op, p[:n]) {
				t.Errorf("%v: %d octets are enough", tt.op, n)
			}
		}
	}
}
