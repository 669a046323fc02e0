package transport_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/record"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// sysBody is authsys_parms by hand, legal or not (RFC 5531 Appendix A).
func sysBody(name, gids int, more ...byte) []byte {
	b := xdr.AppendString(words(1), strings.Repeat("n", name))
	b = append(b, words(0, 0, uint32(gids))...)
	return append(append(b, make([]byte, 4*gids)...), more...)
}

// TestAuthSysLimits: a name of 255 octets and 16 groups pass, one more is AUTH_BADCRED, to
// the octet (RFC 5531 Sections 8.2 and 9, Appendix A), on RDMA and on record-marked TCP.
// Nothing that is refused is executed.
func TestAuthSysLimits(t *testing.T) {
	const ok, badCred, badVerf = 0, uint32(xdr.AuthBadCred), uint32(xdr.AuthBadVerf)
	for _, tt := range []struct {
		name string
		cred []byte
		verf []byte
		want uint32
		long bool // no decodable call on RDMA
	}{
		{"name of 255", sysBody(255, 0), nil, ok, false},
		{"16 groups", sysBody(6, 16), nil, ok, false},
		{"both", sysBody(255, 16), nil, ok, false},
		{"name of 256", sysBody(256, 0), nil, badCred, false},
		{"17 groups", sysBody(6, 17), nil, badCred, false},
		{"no octets", nil, nil, badCred, false},
		{"a group missing", sysBody(6, 16)[:84], nil, badCred, false},
		{"4 octets behind it", sysBody(6, 16, 0, 0, 0, 0), nil, badCred, false},
		{"400 octets", sysBody(255, 16, make([]byte, 60)...), nil, badCred, false},
		{"404 octets", sysBody(255, 16, make([]byte, 64)...), nil, badCred, true},
		{"a verifier", sysBody(6, 1), []byte("none"), badVerf, false},
		{"a verifier of 404 octets", sysBody(6, 1), make([]byte, 404), badVerf, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ran := 0
			h := rpc.HandlerFunc(func(context.Context, *rpc.Request, *rpc.Response) { ran++ })
			s := newServer(t, h, testConfig())
			call := xdr.AppendCall(nil, &xdr.CallHeader{
				XID: 0x01020304, RPCVers: 2, Prog: testProg, Vers: testVers,
				Cred: xdr.Auth{Flavor: xdr.AuthSys, Body: tt.cred}, Verf: xdr.Auth{Body: tt.verf},
			})
			want := words(0x01020304, 1, 1, 1, tt.want)
			if tt.want == ok {
				want = words(0x01020304, 1, 0, 0, 0, 0)
			}

			a, b := net.Pipe()
			go func() { _ = s.ServeStreamConn(b) }() // ends with the pipe
			go func() { _, _ = a.Write(markedRecord(call)) }()
			got := make([]byte, record.MarkSize+len(want))
			if _, err := io.ReadFull(a, got); err != nil || !bytes.Equal(got, markedRecord(want)) {
				t.Errorf("TCP: %x, %v", got, err)
			}
			a.Close()

			a2, b2 := rdmaptest.Pipe()
			go func() { _ = s.ServeConn(b2) }() // ends with the pipe
			p := rawOn(t, a2)
			p.send(header(rpcrdma.Header{XID: 0x01020304}), call)
			head, msg := p.recv()
			if refused := head.Type == rpcrdma.MsgTypeError && head.Err == rpcrdma.ErrChunk; refused != tt.long {
				t.Errorf("RDMA: %+v", head)
			}
			if !tt.long && !bytes.Equal(msg, want) {
				t.Errorf("RDMA: %x", msg)
			}
			if want := 2; tt.want == ok && ran != want || tt.want != ok && ran != 0 {
				t.Errorf("%d calls ran", ran)
			}
		})
	}
}

// TestOwnCredentialTooLong: what no server could decode is not sent.
func TestOwnCredentialTooLong(t *testing.T) {
	s, c := pair(t, newEcho(), nil, nil)
	for _, call := range []rpc.Call{
		{Prog: testProg, Vers: testVers, Cred: xdr.Auth{Flavor: xdr.AuthSys, Body: make([]byte, 401)}},
		{Prog: testProg, Vers: testVers, Verf: xdr.Auth{Flavor: xdr.RPCSECGSS, Body: make([]byte, 401)}},
	} {
		if e, ok := errors.AsType[*rpc.RPCError](try(t, c, &call)); !ok || e.Reason != rpc.ReasonBadCall {
			t.Errorf("%v", e)
		}
	}
	if n := s.Stats().Calls + s.Stats().Errors; n != 0 {
		t.Errorf("the server has seen %d calls", n)
	}
	mustDo(t, c, &nullCall)
}
