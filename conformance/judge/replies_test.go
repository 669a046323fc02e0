package judge_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/redial"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

const echoProg = 0x20000001

// Replies pushed into a log of the client before the Sends that name them, and again by the
// next life of the client.
func TestReplies(t *testing.T) {
	sequence(t, "replies-send", map[string]int{
		fmt.Sprintf("%d.1", replies.Program): 2, fmt.Sprintf("%d.1", echoProg): 6, "connections": 4,
		decode.CommitWrite.String(): 6, decode.CommitTail.String(): 2,
	}, func(t *testing.T, to relay) { answered(t, to) })
}

// answered has calls answered by replies that are durable at the client.
func answered(t *testing.T, to relay) {
	t.Helper()
	logs, calls := listen(t), listen(t)
	p := &replies.Pusher{
		Handler: rpc.HandlerFunc(func(_ context.Context, req *rpc.Request, resp *rpc.Response) {
			resp.Results = append(resp.Results, req.Args...)
		}),
		Choose: func(_, _, _ uint32) bool { return true },
	}
	p.Addr = to(logs.Addr().String())
	ts := &transport.Server{Handler: p}
	running(t, func() { check(t, ts.Close()); p.Close() },
		func() { _ = p.Serve(logs) }, func() { _ = ts.Serve(calls) })
	addr, mem := to(calls.Addr().String()), pmemtest.NewSim(1<<16, nil)
	check(t, replies.Create(mem, nil))
	for range 2 {
		cfg := &replies.Config{Memory: mem, Redial: redial.Config{
			Dial: func(ctx context.Context) (redial.Conn, error) { return transport.Dial(ctx, "tcp", addr, nil) },
		}}
		c, err := replies.Open(cfg)
		check(t, err)
		for i := range uint32(3) {
			var reply rpc.Reply
			_, err := c.Call(t.Context(), &rpc.Call{Prog: echoProg, Vers: 1, Proc: 1, Args: xdr.AppendUint32(nil, i)}, &reply)
			check(t, err)
			reply.Release()
		}
		check(t, c.Close())
		mem = pmemtest.OpenSim(mem.Told().Durable(), nil)
	}
}
