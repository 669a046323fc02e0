package transport_test

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

// A server that only machines of one network may use. Everybody else is told so in the
// start-up of the connection.
func ExampleAllowNets() {
	allow, err := transport.AllowNets("192.0.2.0/24", "2001:db8::1")
	if err != nil {
		panic(err)
	}
	srv := &transport.Server{
		Handler: rpc.HandlerFunc(func(context.Context, *rpc.Request, *rpc.Response) {}),
		Config:  &transport.Config{Limits: transport.Limits{Allow: allow, PerClient: transport.ClientLimits{Conns: 16}}},
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go srv.Serve(l)
	defer srv.Close()

	_, err = transport.Dial(context.Background(), "tcp", l.Addr().String(), nil)
	if e, ok := errors.AsType[*rpc.OpError](err); ok {
		fmt.Println("rejected:", e.Rejected())
	}
	fmt.Println("not allowed:", srv.Stats().NotAllowed)
	// Output:
	// rejected: true
	// not allowed: 1
}
