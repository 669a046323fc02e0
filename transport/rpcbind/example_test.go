package rpcbind_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpcbind"
)

// A service that answers rpcbind on its own RDMA port (RFC 5666 Section 10).
func ExampleTable() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	nfs := rpcbind.Entry{Prog: 100003, Vers: 3, Netid: rpcbind.NetRDMA, Addr: "192.0.2.1.78.81"}
	s := &transport.Server{Handler: &rpcbind.Table{Entries: []rpcbind.Entry{nfs}}}
	go s.Serve(l)
	defer s.Close()

	ctx := context.Background()
	c, err := transport.Dial(ctx, "tcp", l.Addr().String(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Println(rpcbind.GetAddr(ctx, c, 100003, 3, rpcbind.NetRDMA))
	_, err = rpcbind.GetAddr(ctx, c, 100005, 3, rpcbind.NetRDMA)
	fmt.Println(err)
	// Output:
	// 192.0.2.1:20049 <nil>
	// program 100005 version 3 over rdma: rpcbind: not registered
}
