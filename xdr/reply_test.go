package xdr_test

import (
	"encoding/hex"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stag-rdma/stag/xdr"
)

// Value, octets, error text; every prefix fails.
func TestReplyGolden(t *testing.T) {
	const xid = 0x01020304
	for _, tc := range []struct {
		name string
		h    xdr.ReplyHeader
		hex  string
		err  string
	}{
		{"success", xdr.ReplyHeader{XID: xid}, goldenSuccess, ""},
		{
			"verifier",
			xdr.ReplyHeader{XID: xid, Verf: xdr.Auth{Flavor: 6, Body: []byte("abcde")}},
			"01020304000000010000000000000006000000056162636465000000 00000000", "",
		},
		{
			"empty verifier of a flavor",
			xdr.ReplyHeader{XID: xid, Verf: xdr.Auth{Flavor: 6}},
			"01020304000000010000000000000006 0000000000000000", "",
		},
		{
			"program unavailable",
			xdr.ReplyHeader{XID: xid, Accept: xdr.ProgUnavail},
			"010203040000000100000000000000000000000000000001", "PROG_UNAVAIL",
		},
		{
			"program mismatch",
			xdr.ReplyHeader{XID: xid, Accept: xdr.ProgMismatch, Low: 3, High: 3},
			goldenProgMis, "PROG_MISMATCH, versions 3 to 3",
		},
		{
			"procedure unavailable",
			xdr.ReplyHeader{XID: xid, Accept: xdr.ProcUnavail},
			"010203040000000100000000000000000000000000000003", "PROC_UNAVAIL",
		},
		{"garbage", xdr.ReplyHeader{XID: xid, Accept: xdr.GarbageArgs}, goldenGarbageArgs, "GARBAGE_ARGS"},
		{
			"system error",
			xdr.ReplyHeader{XID: xid, Accept: xdr.SystemErr},
			"010203040000000100000000000000000000000000000005", "SYSTEM_ERR",
		},
		{
			"rpc mismatch",
			xdr.ReplyHeader{XID: xid, Denied: true, Reject: xdr.RPCMismatch, Low: 2, High: 2},
			goldenRPCMis, "RPC_MISMATCH, versions 2 to 2",
		},
		{
			"too weak",
			xdr.ReplyHeader{XID: xid, Denied: true, Reject: xdr.AuthError, AuthStat: xdr.AuthTooWeak},
			goldenTooWeak, "AUTH_ERROR, AUTH_TOOWEAK",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := unhex(t, tc.hex)
			b := xdr.AppendReply(dirty(64), &tc.h)
			if hex.EncodeToString(b) != hex.EncodeToString(want) || tc.h.Size() != len(want) {
				t.Errorf("AppendReply = %x, Size %d, want %x", b, tc.h.Size(), want)
			}
			got := xdr.ReplyHeader{Low: 99, AuthStat: 99, Verf: xdr.Auth{Flavor: 99}}
			d := xdr.NewDecoder(append(want, "results!"...))
			if err := got.Parse(&d); err != nil || string(d.Rest()) != "results!" {
				t.Fatalf("Parse: %v, left %q", err, d.Rest())
			}
			if diff := cmp.Diff(tc.h, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for n := range want {
				d := xdr.NewDecoder(want[:n])
				if err := got.Parse(&d); !errors.Is(err, xdr.ErrShort) {
					t.Errorf("the first %d octets: %v, want ErrShort", n, err)
				}
			}
			checkStatusError(t, &tc.h, tc.err)
		})
	}
}

func checkStatusError(t *testing.T, h *xdr.ReplyHeader, want string) {
	t.Helper()
	err := h.Err()
	if want == "" {
		if err != nil {
			t.Errorf("Err = %v, want nil", err)
		}
		return
	}
	se, ok := errors.AsType[*xdr.RPCStatusError](err)
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
		var h xdr.ReplyHeader
		d := xdr.NewDecoder(unhex(t, tc.hex))
		err := h.Parse(&d)
		var de *xdr.DecodeError
		if !errors.As(err, &de) || de.Field != tc.field || de.Off != tc.off || !errors.Is(err, xdr.ErrRange) {
			t.Errorf("%s: %v, want ErrRange in %s at %d", tc.name, err, tc.field, tc.off)
		}
	}
}
