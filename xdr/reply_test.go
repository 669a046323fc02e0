package xdr

import (
	"encoding/hex"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Value, octets, error text; every prefix fails.
func TestReplyGolden(t *testing.T) {
	const xid = 0x01020304
	for _, tc := range []struct {
		name string
		h    ReplyHeader
		hex  string
		err  string
	}{
		{"success", ReplyHeader{XID: xid}, goldenSuccess, ""},
		{
			"verifier",
			ReplyHeader{XID: xid, Verf: Auth{Flavor: 6, Body: []byte("abcde")}},
			"01020304000000010000000000000006000000056162636465000000 00000000", "",
		},
		{
			"empty verifier of a flavor",
			ReplyHeader{XID: xid, Verf: Auth{Flavor: 6}},
			"01020304000000010000000000000006 0000000000000000", "",
		},
		{
			"program unavailable",
			ReplyHeader{XID: xid, Accept: ProgUnavail},
			"010203040000000100000000000000000000000000000001", "PROG_UNAVAIL",
		},
		{
			"program mismatch",
			ReplyHeader{XID: xid, Accept: ProgMismatch, Low: 3, High: 3},
			goldenProgMis, "PROG_MISMATCH, versions 3 to 3",
		},
		{
			"procedure unavailable",
			ReplyHeader{XID: xid, Accept: ProcUnavail},
			"010203040000000100000000000000000000000000000003", "PROC_UNAVAIL",
		},
		{"garbage", ReplyHeader{XID: xid, Accept: GarbageArgs}, goldenGarbageArgs, "GARBAGE_ARGS"},
		{
			"system error",
			ReplyHeader{XID: xid, Accept: SystemErr},
			"010203040000000100000000000000000000000000000005", "SYSTEM_ERR",
		},
		{
			"rpc mismatch",
			ReplyHeader{XID: xid, Denied: true, Reject: RPCMismatch, Low: 2, High: 2},
			goldenRPCMis, "RPC_MISMATCH, versions 2 to 2",
		},
		{
			"too weak",
			ReplyHeader{XID: xid, Denied: true, Reject: AuthError, AuthStat: AuthTooWeak},
			goldenTooWeak, "AUTH_ERROR, AUTH_TOOWEAK",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := unhex(t, tc.hex)
			b := AppendReply(dirty(64), &tc.h)
			if hex.EncodeToString(b) != hex.EncodeToString(want) || tc.h.Size() != len(want) {
				t.Errorf("AppendReply = %x, Size %d, want %x", b, tc.h.Size(), want)
			}
			got := ReplyHeader{Low: 99, AuthStat: 99, Verf: Auth{Flavor: 99}}
			d := NewDecoder(append(want, "results!"...))
			if err := got.Parse(&d); err != nil || string(d.Rest()) != "results!" {
				t.Fatalf("Parse: %v, left %q", err, d.Rest())
			}
			if diff := cmp.Diff(tc.h, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for n := range want {
				d := NewDecoder(want[:n])
				if err := got.Parse(&d); !errors.Is(err, ErrShort) {
					t.Errorf("the first %d octets: %v, want ErrShort", n, err)
				}
			}
			checkStatusError(t, &tc.h, tc.err)
		})
	}
}

func checkStatusError(t *testing.T, h *ReplyHeader, want string) {
	t.Helper()
	err := h.Err()
	if want == "" {
		if err != nil {
			t.Errorf("Err = %v, want nil", err)
		}
		return
	}
	se, ok := errors.AsType[*RPCStatusError](err)
	if !ok || se.Error() != "xdr: rpc call refused: "+want {
		t.Fatalf("Err = %v, want %s", err, want)
	}
	if se.Denied != h.Denied || se.Accept != h.Accept || se.AuthStat != h.AuthStat || se.Low != h.Low {
		t.Errorf("status %+v of %+v", se, h)
	}
}

func TestReplyErrors(t *testing.T) {
	for _, tc := range []struct {
		name, hex, field string
		off              int
	}{
		{"a call", "01020304 00000000 00000000", "mtype", 4},
		{"reply_stat 2", "01020304 00000001 00000002", "reply_stat", 8},
		{"accept_stat 6", "01020304 00000001 00000000 00000000 00000000 00000006", "accept_stat", 20},
		{"reject_stat 2", "01020304 00000001 00000001 00000002", "reject_stat", 12},
		{"auth_stat 15", "01020304 00000001 00000001 00000001 0000000f", "auth_stat", 16},
		{"verf of 401 octets", "01020304 00000001 00000000 00000000 00000191", "verf", 16},
	} {
		var h ReplyHeader
		d := NewDecoder(unhex(t, tc.hex))
		err := h.Parse(&d)
		var de *DecodeError
		if !errors.As(err, &de) || de.Field != tc.field || de.Off != tc.off || !errors.Is(err, ErrRange) {
			t.Errorf("%s: %v, want ErrRange in %s at %d", tc.name, err, tc.field, tc.off)
		}
	}
}
