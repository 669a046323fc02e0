package proxy_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/proxy"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// TestLater: every procedure's answer is a complete one, with the status that asks for patience.
func TestLater(t *testing.T) {
	for p := nfs3.ProcGetAttr; p < nfs3.ProcCount; p++ {
		b := proxy.Later(nil, p)
		d := xdr.NewDecoder(b)
		if err := xdr.Decode(&d, p.NewRes()).Err(); err != nil || len(d.Rest()) > 0 {
			t.Errorf("%v: %v, %d octets left", p, err, len(d.Rest()))
		}
		d = xdr.NewDecoder(b)
		if s := nfs3.Status(d.Uint32()); s != nfs3.ErrJukebox {
			t.Errorf("%v: %v", p, s)
		}
	}
}

// TestAway: while the server cannot be reached, clients on both transports are told so, call by call, and
// served when it is back.
func TestAway(t *testing.T) {
	back := listen(t)
	s := &transport.Server{Handler: rpc.HandlerFunc(func(_ context.Context, _ *rpc.Request, resp *rpc.Response) {
		resp.Results = xdr.AppendUint32(resp.Results, 0)
	})}
	go s.ServeStream(back)
	defer s.Close()
	var down atomic.Bool
	down.Store(true)
	front := listen(t)
	p := &proxy.Proxy{Dial: func(ctx context.Context, _ rpc.Handler) (proxy.Server, error) {
		if down.Load() {
			return nil, errors.New("no server")
		}
		return transport.DialStream(ctx, "tcp", back.Addr().String(), nil)
	}}
	plain := listen(t)
	go p.Serve(front)
	go p.ServeStream(plain)
	defer p.Close()
	clients := func() (list []rpc.Caller) {
		r := must(transport.Dial(t.Context(), "tcp", front.Addr().String(), nil))(t)
		c := must(net.Dial("tcp", plain.Addr().String()))(t)
		s := must(transport.NewStreamClient(context.Background(), c, nil))(t)
		t.Cleanup(func() { _, _ = r.Close(), s.Close() }) // nothing is awaited
		return []rpc.Caller{r, s}
	}
	call := func(c rpc.Caller, prog, vers, proc uint32) (xdr.AcceptStat, uint32, error) {
		var reply rpc.Reply
		defer reply.Release()
		err := c.Do(t.Context(), &rpc.Call{Prog: prog, Vers: vers, Proc: proc}, &reply)
		d := xdr.NewDecoder(reply.Results)
		return reply.Header.Accept, d.Uint32(), err
	}
	for _, c := range clients() {
		if stat, _, err := call(c, nfs3.Program, 3, 0); err != nil || stat != xdr.SystemErr {
			t.Error(stat, err)
		}
		if _, st, err := call(c, nfs3.Program, 3, uint32(nfs3.ProcRead)); err != nil || nfs3.Status(st) != nfs3.ErrJukebox {
			t.Error(st, err)
		}
		if _, st, err := call(c, mount3.Program, 3, uint32(mount3.ProcMnt)); err != nil || mount3.Status(st) != mount3.ErrServerFault {
			t.Error(st, err)
		}
		if stat, _, err := call(c, mount3.Program, 3, uint32(mount3.ProcExport)); err != nil || stat != xdr.SystemErr {
			t.Error(stat, err)
		}
		if _, _, err := call(c, nfs3.Program, 4, 1); err == nil { // NFSv4 has no such answer
			t.Error("answered")
		}
	}
	if st := p.Stats(); st.Failed != 2 {
		t.Errorf("%+v", st)
	}
	down.Store(false)
	for _, c := range clients() {
		if stat, st, err := call(c, nfs3.Program, 3, uint32(nfs3.ProcRead)); err != nil || stat != xdr.Success || st != 0 {
			t.Error(stat, st, err)
		}
	}
	for len(p.Clients()) != 2 {
		time.Sleep(time.Millisecond) // the earlier ones have been cut, and are about to go
	}
}
