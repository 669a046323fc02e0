package redial_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"time"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/redial"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// A client that outlives its connections.
func ExampleNew() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	double := rpc.HandlerFunc(func(_ context.Context, req *rpc.Request, resp *rpc.Response) {
		d := xdr.NewDecoder(req.Args)
		resp.Results = xdr.AppendUint32(resp.Results, 2*d.Uint32())
	})
	s := &transport.Server{Handler: double}
	go s.Serve(l)
	defer s.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var conn *transport.Client
	r, err := redial.New(&redial.Config{
		Dial: func(ctx context.Context) (redial.Conn, error) {
			c, err := transport.Dial(ctx, "tcp", l.Addr().String(), nil)
			conn = c
			return c, err
		},
		Patience: 3 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	if err := r.Connect(ctx); err != nil { // to see at once whether the server is there
		log.Fatal(err)
	}

	var reply rpc.Reply
	for range 2 {
		call := &rpc.Call{
			Prog: 400000, Vers: 1, Proc: 1, Args: xdr.AppendUint32(nil, 21),
			Repeatable: true, // it does no harm if the server runs it twice
		}
		if err := r.Do(ctx, call, &reply); err != nil {
			log.Fatal(err)
		}
		d := xdr.NewDecoder(reply.Results)
		fmt.Println(d.Uint32())
		reply.Release()
		conn.Abort(nil) // the wire is cut
	}
	fmt.Println(r.Stats().Accepted, "connections")
	// Output:
	// 42
	// 42
	// 2 connections
}
