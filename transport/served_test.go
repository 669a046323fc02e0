package transport_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

var byNetwork = map[string]func(*transport.Server, net.Listener) error{"rdma": overRDMA, "tcp": overTCP}

// TestServedEach: each connection has its own handler, and ends with its own context when the call that runs is answered;
// then whoever gave them is told.
func TestServedEach(t *testing.T) {
	for name, serve := range byNetwork {
		t.Run(name, func(t *testing.T) {
			over := make(chan uint32, 2)
			var nth atomic.Uint32
			s := &transport.Server{Each: func(net.Conn) transport.Served {
				n := nth.Add(1) // the second comes when the first one is over
				ctx, end := context.WithCancel(t.Context())
				return transport.Served{
					Handler: rpc.HandlerFunc(func(_ context.Context, req *rpc.Request, resp *rpc.Response) {
						if req.Proc == procNull { // which asks for the grant
							return
						}
						if req.Proc == procEcho {
							end()
						}
						resp.Results = xdr.AppendUint32(resp.Results, n)
					}),
					Context: ctx,
					Over:    func() { over <- n },
				}
			}}
			l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
			go serve(s, l)
			if c := cardListener(t, l.Addr()); c != nil {
				go s.Serve(c)
			}
			defer s.Close()
			for n := range uint32(2) {
				c := connect(t, name, l.Addr().String(), nil).(interface {
					rpc.Caller
					Done() <-chan struct{}
				})
				for _, proc := range []uint32{procList, procEcho} {
					var r rpc.Reply
					err := c.Do(testCtx(t), &rpc.Call{Prog: testProg, Vers: testVers, Proc: proc}, &r)
					d := xdr.NewDecoder(r.Results)
					if got := d.Uint32(); err != nil || got != n+1 {
						t.Errorf("%d: %v", got, err)
					}
					r.Release()
				}
				<-c.Done()
				if got := <-over; got != n+1 {
					t.Errorf("%d is over", got)
				}
			}
		})
	}
}

// TestDrop: a call that its handler drops gets no reply, and runs again when it comes again though it must not run twice.
func TestDrop(t *testing.T) {
	for network, serve := range byNetwork {
		t.Run(network, func(t *testing.T) {
			ran := make(chan struct{}, 3)
			_, addr := served(t, serve, &droppedOnce{ran: ran}, nil)
			ctx, cancel := context.WithCancel(testCtx(t))
			go func() {
				<-ran
				cancel()
			}()
			call := rpc.Call{Prog: testProg, Vers: testVers, Proc: procEcho, Resend: &rpc.Transmission{XID: 7}}
			var r rpc.Reply
			defer r.Release()
			if err := connect(t, network, addr, nil).Do(ctx, &call, &r); err == nil {
				t.Error("answered")
			}
			if err := connect(t, network, addr, nil).Do(testCtx(t), &call, &r); err != nil {
				t.Error(err)
			}
			if len(ran) != 1 {
				t.Errorf("%d runs", len(ran)+1)
			}
		})
	}
}

// droppedOnce drops the first call.
type droppedOnce struct {
	ran  chan struct{}
	seen bool
}

func (*droppedOnce) Describe(req *rpc.Request) rpc.Traits {
	return rpc.Traits{Once: req.Proc != procNull}
}

func (h *droppedOnce) ServeRPC(_ context.Context, req *rpc.Request, resp *rpc.Response) {
	if req.Proc == procNull {
		return
	}
	if !h.seen {
		h.seen = true
		resp.Drop()
	}
	h.ran <- struct{}{}
}
