package server_test

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// slowNull is a server whose NULL with a credential takes as long as the test wants.
type slowNull struct {
	*server.Server
	begun, gate chan struct{}
}

func (s *slowNull) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	if req.Prog == nfs3.Program && req.Proc == uint32(nfs3.ProcNull) && req.Cred.Flavor != xdr.AuthNone { // not that of a client that asks for the grant
		s.begun <- struct{}{}
		<-s.gate
	}
	s.Server.ServeRPC(ctx, req, resp)
}

// nothing are the arguments of NULL.
type nothing struct{}

func (nothing) Append(b []byte) []byte   { return b }
func (nothing) Parse(*xdr.Decoder) error { return nil }

// newSlowHost is a server that reads no call of a connection while a NULL of that connection runs.
func newSlowHost(t *testing.T, w way) (*host, *slowNull) {
	cfg := &transport.Config{Reading: transport.Reading{HandlerLimit: -1}}
	if w.name == stream.name {
		cfg.Credits = 1
	}
	var n *slowNull
	h := newHostOf(t, cfg, func(s *server.Server) rpc.Handler {
		n = &slowNull{s, make(chan struct{}, 1), make(chan struct{})}
		return n
	})
	return h, n
}

// delayed sends a WRITE that the server does not read until the NULL before it has ended.
func (h *host) delayed(p *process, n *slowNull, f nfs3.FileHandle) {
	h.Helper()
	p.read(f, 1) // credits
	p.xid++
	b := p.record(nfs3.Program, nfs3.Version, uint32(nfs3.ProcNull), nothing{})
	p.xid++
	b = append(b, p.record(nfs3.Program, nfs3.Version, uint32(nfs3.ProcWrite), writeOf(f, small('a')))...)
	if _, err := p.conn.Write(b); err != nil {
		p.Fatal(err)
	}
	<-n.begun
}

var someone = xdr.SysCred{MachineName: "client", UID: 1000, GIDs: []uint32{100}}

// TestLateWrite: a client gives up a connection in which a WRITE waits, connects again and writes
// something else there. The WRITE that waited is not executed when the server comes to it.
func TestLateWrite(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			h, n := newSlowHost(t, w)
			f := h.file(stream)
			old := h.start(w, "127.0.0.1", someone)
			h.delayed(old, n, f)
			_ = old.socket.Close()
			p := h.start(w, "127.0.0.1", someone)
			p.xid = 100
			if got := p.write(f, small('b')); got != nfs3.OK {
				t.Fatal(got)
			}
			close(n.gate)
			waitFor(t, func() bool { st := h.s.Stats(); return st.Connections == 2 && st.InFlight == 0 })
			if got := p.read(f, 200_000); !bytes.Equal(got, small('b')) {
				t.Errorf("the file ends with %q", got[len(got)-1])
			}
			if st := h.s.Stats(); w.name == stream.name && st.Late != 1 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// TestNotLate: a client that uses two connections at once, or that has closed its end of the only one
// it has, has given up nothing.
func TestNotLate(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			h, n := newSlowHost(t, w)
			f := h.file(stream)
			one := h.start(w, "127.0.0.1", someone)
			h.delayed(one, n, f)
			two := h.start(w, "127.0.0.1", someone)
			two.read(f, 1)
			close(n.gate)
			waitFor(t, func() bool { return h.s.Stats().InFlight == 0 })
			if got := two.read(f, 200_000); !bytes.Equal(got, small('a')) || h.s.Stats().Late != 0 {
				t.Errorf("%d octets, %+v", len(got), h.s.Stats())
			}
		})
	}
	h, n := newSlowHost(t, stream)
	f := h.file(stream)
	p := h.start(stream, "127.0.0.2", someone)
	h.delayed(p, n, f)
	_ = p.socket.(*net.TCPConn).CloseWrite()
	close(n.gate)
	p.xid--
	p.receive(nothing{})
	p.xid++
	var res nfs3.WriteRes
	if p.receive(&res); res.Status != nfs3.OK || h.s.Stats().Late != 0 {
		t.Errorf("%v, %+v", res.Status, h.s.Stats())
	}
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never")
		}
	}
}

// small is data that socket buffers hold.
func small(seed byte) []byte { return data(seed)[100_000-8_000:] }
