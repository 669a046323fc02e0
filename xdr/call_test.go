package xdr_test

import (
	"encoding/hex"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stag-rdma/stag/xdr"
)

func goldenHeader() xdr.CallHeader {
	c := goldenCred()
	return xdr.CallHeader{XID: 0x01020304, RPCVers: 2, Prog: 100003, Vers: 3, Cred: c.Auth()}
}

func TestCallGolden(t *testing.T) {
	h := goldenHeader()
	b := xdr.AppendCall(dirty(128), &h)
	if got := hex.EncodeToString(b); got != goldenCall {
		t.Fatalf("AppendCall = %s, want %s", got, goldenCall)
	}
	if h.Size() != len(b) {
		t.Errorf("Size = %d, want %d", h.Size(), len(b))
	}
	got := xdr.CallHeader{Proc: 99, Verf: xdr.Auth{Flavor: 9}} // all of it is overwritten
	d := xdr.NewDecoder(append(b, "arguments..."...))
	if err := got.Parse(&d); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(h, got); diff != "" || string(d.Rest()) != "arguments..." {
		t.Errorf("arguments %q, -want +got:\n%s", d.Rest(), diff)
	}
	for n := range b {
		d := xdr.NewDecoder(b[:n])
		if err := got.Parse(&d); !errors.Is(err, xdr.ErrShort) {
			t.Errorf("the first %d octets: %v, want ErrShort", n, err)
		}
	}
}

// A wrong rpcvers is the business of RPC, not of decoding: nothing behind it
// is looked at.
func TestCallRPCVersion(t *testing.T) {
	for _, behind := range []string{"", " 00000001 00000001 00000001 00000000 00000000 00000000 00000000"} {
		h := xdr.CallHeader{Prog: 99}
		d := xdr.NewDecoder(unhex(t, "00000007 00000000 00000003"+behind))
		if err := h.Parse(&d); err != nil || h.XID != 7 || h.RPCVers != 3 || h.Prog != 0 || d.Offset() != 12 {
			t.Errorf("Parse = %v, %+v", err, h)
		}
	}
}

func TestCallErrors(t *testing.T) {
	for _, tc := range []struct {
		name, hex, field string
		off              int
		want             error
	}{
		{"a reply", "00000007 00000001 00000002", "mtype", 4, xdr.ErrRange},
		{"mtype 2", "00000007 00000002 00000002", "mtype", 4, xdr.ErrRange},
		{"cut in prog", "00000007 00000000 00000002 0001", "call header", 12, xdr.ErrShort},
		{"cred of 401 octets", "00000007 00000000 00000002 00000001 00000001 00000001 00000001 00000191", "cred", 28, xdr.ErrRange},
		{"cred cut", "00000007 00000000 00000002 00000001 00000001 00000001 00000001 00000004", "cred", 28, xdr.ErrShort},
		{"verf of 2^32-1 octets", "00000007 00000000 00000002 00000001 00000001 00000001 00000000 00000000 00000000 ffffffff", "verf", 36, xdr.ErrRange},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var h xdr.CallHeader
			d := xdr.NewDecoder(unhex(t, tc.hex))
			err := h.Parse(&d)
			var de *xdr.DecodeError
			if !errors.As(err, &de) || de.Field != tc.field || de.Off != tc.off || !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v in %s at %d", err, tc.want, tc.field, tc.off)
			}
			if h.XID != 7 {
				t.Errorf("XID = %d, want 7", h.XID)
			}
		})
	}
}

func TestPeekXID(t *testing.T) {
	b := unhex(t, goldenCall)
	if xid, mt, ok := xdr.PeekXID(b); xid != 0x01020304 || mt != xdr.MsgCall || !ok {
		t.Errorf("PeekXID of a call = %x, %d, %v", xid, mt, ok)
	}
	if xid, mt, ok := xdr.PeekXID(unhex(t, goldenSuccess)); xid != 0x01020304 || mt != xdr.MsgReply || !ok {
		t.Errorf("PeekXID of a reply = %x, %d, %v", xid, mt, ok)
	}
	for n := range 8 {
		if xid, mt, ok := xdr.PeekXID(b[:n]); xid != 0 || mt != 0 || ok {
			t.Errorf("PeekXID of %d octets = %x, %d, %v", n, xid, mt, ok)
		}
	}
}
