package rpc_test

import (
	"context"
	"fmt"

	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// counting counts the calls that pass through it. What the handler behind it says about
// calls, it says too.
type counting struct {
	next rpc.Handler
	n    int
}

func (c *counting) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	c.n++
	c.next.ServeRPC(ctx, req, resp)
}

func (c *counting) Describe(req *rpc.Request) rpc.Traits { return rpc.Describe(c.next, req) }

// files has a procedure 7 that waits for a disk, must not run twice, and takes its data itself.
type files struct{ rpc.HandlerFunc }

func (files) Describe(req *rpc.Request) rpc.Traits {
	return rpc.Traits{Blocks: req.Proc == 7, Once: req.Proc == 7, Lazy: req.Proc == 7}
}

// A handler in front of another one passes on what that says about calls.
func ExampleDescribe() {
	served := files{func(context.Context, *rpc.Request, *rpc.Response) {}}
	h := &counting{next: &counting{next: served}}
	for _, proc := range []uint32{7, 8} {
		req := &rpc.Request{CallHeader: xdr.CallHeader{Prog: 400_000, Vers: 1, Proc: proc}}
		t := rpc.Describe(h, req)
		fmt.Println(t.Blocks, t.Once, t.Lazy, rpc.Describe(nil, req).Lazy)
	}
	// Output:
	// true true true false
	// false false false false
}
