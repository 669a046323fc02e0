package transport_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// doubles is a program of one procedure.
func doubles(_ context.Context, req *rpc.Request, resp *rpc.Response) {
	d := xdr.NewDecoder(req.Args)
	resp.Results = xdr.AppendUint32(resp.Results, 2*d.Uint32())
}

// One port for NFS/RDMA and NFS over TCP, or whatever the handler serves.
func ExampleServer_ServeShared() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	s := &transport.Server{Handler: rpc.HandlerFunc(doubles)}
	go s.ServeShared(l)
	defer s.Close()

	ctx := context.Background()
	rdma, err := transport.Dial(ctx, "tcp", l.Addr().String(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer rdma.Close()
	stream, err := transport.DialStream(ctx, "tcp", l.Addr().String(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()
	for i, c := range []rpc.Caller{rdma, stream} {
		var reply rpc.Reply
		call := rpc.Call{Prog: 400000, Vers: 1, Proc: 1, Args: xdr.AppendUint32(nil, uint32(20+i))}
		if err := c.Do(ctx, &call, &reply); err != nil {
			log.Fatal(err)
		}
		d := xdr.NewDecoder(reply.Results)
		fmt.Println(d.Uint32())
		reply.Release()
	}
	// Output:
	// 40
	// 42
}
