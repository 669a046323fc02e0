package transport_test

import (
	"context"
	"fmt"

	"github.com/stag-rdma/stag/transport"
)

// counting counts the calls that pass through it. What the handler behind it says about
// calls, it says too.
type counting struct {
	next transport.Handler
	n    int
}

func (c *counting) ServeRPC(ctx context.Context, req *transport.Request, resp *transport.Response) {
	c.n++
	c.next.ServeRPC(ctx, req, resp)
}

func (c *counting) MayBlock(prog, vers, proc uint32) bool {
	return transport.MayBlock(c.next, prog, vers, proc)
}

func (c *counting) NonIdempotent(prog, vers, proc uint32) bool {
	return transport.NonIdempotent(c.next, prog, vers, proc)
}

func (c *counting) Lazy(prog, vers, proc uint32) bool {
	return transport.Lazy(c.next, prog, vers, proc)
}

// files has a procedure 7 that waits for a disk, must not run twice, and takes its data itself.
type files struct{ transport.HandlerFunc }

func (files) MayBlock(_, _, proc uint32) bool      { return proc == 7 }
func (files) NonIdempotent(_, _, proc uint32) bool { return proc == 7 }
func (files) Lazy(_, _, proc uint32) bool          { return proc == 7 }

// A handler in front of another one passes on what that says about calls.
func ExampleLazy() {
	served := files{func(context.Context, *transport.Request, *transport.Response) {}}
	h := &counting{next: &counting{next: served}}
	for _, proc := range []uint32{7, 8} {
		fmt.Println(transport.MayBlock(h, 400_000, 1, proc), transport.NonIdempotent(h, 400_000, 1, proc),
			transport.Lazy(h, 400_000, 1, proc), transport.Lazy(nil, 400_000, 1, proc))
	}
	// Output:
	// true true true false
	// false false false false
}
