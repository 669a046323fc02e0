package rpc_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// A reply that goes another way, here a channel: 8 octets stand for it on the connection.
func ExampleResponse_Immediate() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	another := make(chan []byte, 1)
	s := &transport.Server{
		Handler: rpc.HandlerFunc(func(_ context.Context, req *rpc.Request, resp *rpc.Response) {
			resp.Results = xdr.AppendUint32(resp.Results, 42)
			another <- resp.AppendReply(nil, req.XID)
			resp.Immediate(7)
		}),
		Config: &transport.Config{ImmediateReplies: true},
	}
	go s.Serve(l)
	defer s.Close()

	ctx := context.Background()
	c, err := transport.Dial(ctx, "tcp", l.Addr().String(), &transport.Config{
		ImmediateReplies: true,
		Immediate: func(n uint64, deliver func(reply []byte)) {
			fmt.Println("reply", n)
			deliver(<-another)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	var reply rpc.Reply
	err = c.Do(ctx, &rpc.Call{Prog: 400000, Vers: 1, Proc: 1}, &reply)
	fmt.Println(reply.Results, err)
	reply.Release()
	// Output:
	// reply 7
	// [0 0 0 42] <nil>
}
