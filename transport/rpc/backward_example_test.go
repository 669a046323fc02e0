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

// A server that calls its client back, as NFSv4.1 servers do to recall a delegation.
func ExampleBackward() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	met := make(chan *rpc.Backward, 2)
	s := &transport.Server{
		Handler: rpc.HandlerFunc(func(_ context.Context, req *rpc.Request, _ *rpc.Response) {
			met <- req.Backward // it outlives the call
		}),
		Config: &transport.Config{Backward: transport.Backward{Credits: 4}},
	}
	go s.ServeShared(l)
	defer s.Close()

	ctx := context.Background()
	both := &transport.Config{Backward: transport.Backward{Credits: 4, Handler: rpc.HandlerFunc(
		func(_ context.Context, req *rpc.Request, resp *rpc.Response) {
			d := xdr.NewDecoder(req.Args)
			resp.Results = xdr.AppendUint32(resp.Results, 2*d.Uint32())
		})}}
	c, err := transport.Dial(ctx, "tcp", l.Addr().String(), both)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	plain, err := transport.DialStream(ctx, "tcp", l.Addr().String(), both)
	if err != nil {
		log.Fatal(err)
	}
	defer plain.Close()
	for _, client := range []rpc.Caller{c, plain} {
		var reply rpc.Reply
		if err := client.Do(ctx, &rpc.Call{Prog: 400000, Vers: 1}, &reply); err != nil {
			log.Fatal(err)
		}
		reply.Release()
		back := <-met
		fmt.Println("by RDMA the client says that it takes calls:", back.Enabled())
		back.Enable() // by TCP the upper layer has to know
		call := rpc.Call{Prog: 0x40000000, Vers: 1, Proc: 1, Args: xdr.AppendUint32(nil, 21)}
		if err := back.Do(ctx, &call, &reply); err != nil {
			log.Fatal(err)
		}
		d := xdr.NewDecoder(reply.Results)
		fmt.Println("it says", d.Uint32())
		reply.Release()
	}
	// Output:
	// by RDMA the client says that it takes calls: true
	// it says 42
	// by RDMA the client says that it takes calls: false
	// it says 42
}
