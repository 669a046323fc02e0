package transport_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// gssCred is an RPCSEC_GSS credential of a service (RFC 2203 Section 5.3.1).
func gssCred(service uint32) xdr.Auth {
	return xdr.Auth{Flavor: xdr.RPCSECGSS, Body: append(words(1, 0, 7, service), words(0)...)}
}

// TestGSSNotReduced makes protected calls whose octets look like the binding's: none
// may be reduced, in either direction, and they arrive octet for octet (RFC 8166
// Section 8.2.2.3, ADVERSARY row 29).
func TestGSSNotReduced(t *testing.T) {
	anyCred := testConfig()
	anyCred.AnyCred = true
	h := newEcho()
	check := func(t *testing.T, addr string, stats func() rpc.Stats) {
		c := dial(t, addr, nil)
		for service, reduced := range map[uint32]uint64{1: 5001, 2: 0, 3: 0} {
			before := stats()
			p := filled(5001)
			call := echoCall(p)
			call.Cred, call.Sink, call.MaxResults = gssCred(service), make([]byte, 5001), 64
			r := mustDo(t, c, call)
			checkEcho(t, r, p, call.Sink)
			if r.Placed != (reduced > 0) {
				t.Errorf("service %d: placed %v", service, r.Placed)
			}
			want := before.OctetsRead + reduced
			if reduced == 0 {
				want += 40 + 20 + 4 + 5004 // the whole call as a long one
			}
			if got := stats().OctetsRead; got != want {
				t.Errorf("service %d: %d octets by RDMA Read, want %d", service, got-before.OctetsRead, want-before.OctetsRead)
			}
		}
	}
	t.Run("server", func(t *testing.T) {
		s, addr := startServer(t, h, anyCred)
		check(t, addr, s.Stats)
	})
	t.Run("listener", func(t *testing.T) {
		l := startListener(t, h, anyCred)
		check(t, l.Addr().String(), l.Stats)
	})
	t.Run("credential refused by default", func(t *testing.T) {
		_, c := pair(t, h, nil, nil)
		var r rpc.Reply
		defer r.Release()
		noErr(t, c.Do(context.Background(), &rpc.Call{Prog: testProg, Vers: testVers, Cred: gssCred(1)}, &r))
		if !r.Header.Denied || r.Header.AuthStat != xdr.AuthBadCred {
			t.Errorf("reply %+v", r.Header)
		}
	})
}

// TestGSSReplyNotReduced: a client that offers a write chunk all the same, with a protected
// call, gets it back unused, and the results octet for octet beside it.
func TestGSSReplyNotReduced(t *testing.T) {
	cfg := testConfig()
	cfg.AnyCred = true
	_, addr := startServer(t, newEcho(), cfg)
	for service, placed := range map[uint32]uint64{1: 500, 2: 0, 3: 0} {
		p := rawClient(t, addr, nil)
		mem := make([]byte, 5000)
		h := rpcrdma.Header{XID: 1, Lists: chunks.Lists{Write: []chunks.WriteChunk{{p.offer(mem, region.RemoteWrite)}}}}
		call := xdr.CallHeader{XID: 1, RPCVers: 2, Prog: testProg, Vers: testVers, Proc: procFill, Cred: gssCred(service)}
		p.send(header(h), xdr.AppendCall(nil, &call), words(500))
		got, payload := p.recv()
		if len(got.Write) != 1 || got.Write[0].Room() != placed {
			t.Errorf("service %d: %+v, want %d octets placed", service, got.Lists, placed)
		}
		if inline := bytes.HasSuffix(payload, filled(500)); inline != (placed == 0) || bytes.Equal(mem[:500], filled(500)) == inline {
			t.Errorf("service %d: %d octets inline", service, len(payload))
		}
	}
}
