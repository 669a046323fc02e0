package proxy_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"github.com/stag-rdma/stag/nfsdemo/proxy"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

// A server on TCP is made reachable over RDMA.
func Example() {
	back, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	s := &transport.Server{Handler: rpc.HandlerFunc(func(context.Context, *rpc.Request, *rpc.Response) {})}
	go s.ServeStream(back)
	defer s.Close()

	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	p := &proxy.Proxy{Dial: func(ctx context.Context, _ rpc.Handler) (proxy.Server, error) {
		return transport.DialStream(ctx, "tcp", back.Addr().String(), nil)
	}}
	go p.Serve(front)
	defer p.Close()

	c, err := transport.Dial(context.Background(), "tcp", front.Addr().String(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	var reply rpc.Reply
	defer reply.Release()
	fmt.Println(c.Do(context.Background(), &rpc.Call{Prog: 100003, Vers: 3}, &reply), p.Stats().Accepted)
	// Output: <nil> 1
}
