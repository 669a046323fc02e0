package transport_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

// With profile rfc5666 a client need not know how large results may be: the server
// exposes what fits nowhere, and the client reads it.
func ExampleConfig() {
	cfg := &transport.Config{RFC5666: &transport.RFC5666{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	s := &transport.Server{Config: cfg, Handler: rpc.HandlerFunc(
		func(_ context.Context, _ *rpc.Request, resp *rpc.Response) {
			resp.Results = append(resp.Results, make([]byte, 70_000)...)
		})}
	go s.Serve(l)
	defer s.Close()

	ctx := context.Background()
	c, err := transport.Dial(ctx, "tcp", l.Addr().String(), cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	var reply rpc.Reply
	if err := c.Do(ctx, &rpc.Call{Prog: 400000, Vers: 1, Proc: 2}, &reply); err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(reply.Results), "octets of results,", c.Stats().OctetsExposed, "by RDMA Read,", c.Stats().Dones, "RDMA_DONE")
	reply.Release()
	// Output:
	// 70000 octets of results, 70024 by RDMA Read, 1 RDMA_DONE
}
