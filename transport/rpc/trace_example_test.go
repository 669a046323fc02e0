package rpc_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"strings"

	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

// What becomes of a call, and the counters in the form of Linux.
func ExampleTrace() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	s := &transport.Server{Handler: rpc.HandlerFunc(func(context.Context, *rpc.Request, *rpc.Response) {})}
	go s.Serve(l)
	defer s.Close()

	cfg := &transport.Config{Trace: &rpc.Trace{
		Registered: func(_ uint32, kind rpc.ChunkKind, octets int) { fmt.Println("registered", kind, octets) },
		Sent:       func(_ uint32, form rpcrdma.Form, octets int) { fmt.Println("sent", form, octets) },
		Replied:    func(_ uint32, octets int) { fmt.Println("replied", octets) },
		Ended:      func(_ uint32, err error) { fmt.Println("ended", err) },
	}}
	ctx := context.Background()
	c, err := transport.Dial(ctx, "tcp", l.Addr().String(), cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	var reply rpc.Reply
	defer reply.Release()
	if err := c.Do(ctx, &rpc.Call{Prog: 400000, Vers: 1}, &reply); err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.Fields(c.Stats().Xprt())[:9])
	// Output:
	// sent short 68
	// replied 52
	// ended <nil>
	// [xprt: rdma 0 0 1 0 0 1 1]
}
