package sequences

import (
	"context"
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/conformance/decode"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/xdr"
)

// Replies pushed into a log of the client before the Sends that name them, and again by the
// next life of the client.
func TestReplies(t *testing.T) {
	const prog = 0x20000001
	sequence(t, "replies-send", map[string]int{
		fmt.Sprintf("%d.1", replies.Program): 2, fmt.Sprintf("%d.1", prog): 6, "connections": 4, decode.CommitWrite.String(): 6, decode.CommitTail.String(): 2,
	}, func(t *testing.T, to relay) {
		logs, calls := listen(t), listen(t)
		p := &replies.Pusher{
			Handler: transport.HandlerFunc(func(_ context.Context, req *transport.Request, resp *transport.Response) {
				resp.Results = append(resp.Results, req.Args...)
			}),
			Choose: func(_, _, _ uint32) bool { return true },
		}
		p.Addr = to(logs.Addr().String())
		ts := &transport.Server{Handler: p}
		running(t, func() { check(t, ts.Close()); p.Close() },
			func() { _ = p.Serve(logs) }, func() { _ = ts.Serve(calls) })
		addr, mem := to(calls.Addr().String()), pmem.NewSim(1<<16, nil)
		check(t, replies.Create(mem, nil))
		for range 2 {
			c, err := replies.Open(&replies.Config{Memory: mem, Redial: transport.RedialConfig{
				Dial: func(ctx context.Context) (transport.Caller, error) { return transport.Dial(ctx, "tcp", addr, nil) },
			}})
			check(t, err)
			for i := range uint32(3) {
				var reply transport.Reply
				_, err := c.Call(t.Context(), &transport.Call{Prog: prog, Vers: 1, Proc: 1, Args: xdr.AppendUint32(nil, i)}, &reply)
				check(t, err)
				reply.Release()
			}
			check(t, c.Close())
			mem = pmem.OpenSim(mem.Told().Durable(), nil)
		}
	})
}
