package rpc_test

import (
	"context"
	"fmt"

	"github.com/stag-rdma/stag/transport/rpc"
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

func (c *counting) MayBlock(prog, vers, proc uint32) bool {
	return rpc.MayBlock(c.next, prog, vers, proc)
}

func (c *counting) NonIdempotent(prog, vers, proc uint32) bool {
	return rpc.NonIdempotent(c.next, prog, vers, proc)
}

func (c *counting) Lazy(prog, vers, proc uint32) bool {
	return rpc.Lazy(c.next, prog, vers, proc)
}

// files has a procedure 7 that waits for a disk, must not run twice, and takes its data itself.
type files struct{ rpc.HandlerFunc }

func (files) MayBlock(_, _, proc uint32) bool      { return proc == 7 }
func (files) NonIdempotent(_, _, proc uint32) bool { return proc == 7 }
func (files) Lazy(_, _, proc uint32) bool          { return proc == 7 }

// A handler in front of another one passes on what that says about calls.
func ExampleLazy() {
	served := files{func(context.Context, *rpc.Request, *rpc.Response) {}}
	h := &counting{next: &counting{next: served}}
	for _, proc := range []uint32{7, 8} {
		fmt.Println(rpc.MayBlock(h, 400_000, 1, proc), rpc.NonIdempotent(h, 400_000, 1, proc),
			rpc.Lazy(h, 400_000, 1, proc), rpc.Lazy(nil, 400_000, 1, proc))
	}
	// Output:
	// true true true false
	// false false false false
}
