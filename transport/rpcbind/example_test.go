package rpcbind_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/netip"

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

func ExampleLookupAt() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	nfs := rpcbind.Entry{Prog: 100003, Vers: 3, Netid: rpcbind.NetRDMA, Addr: "0.0.0.0.78.81"}
	s := &transport.Server{Handler: &rpcbind.Table{Entries: []rpcbind.Entry{nfs}}}
	go s.ServeStream(l)
	defer s.Close()
	fmt.Println(rpcbind.LookupAt(context.Background(), l.Addr().String(), 100003, 3, rpcbind.NetRDMA))
	// Output: 127.0.0.1:20049 <nil>
}

// A server tells the rpcbind of its machine where it is; clients find it by name.
func ExampleRegister() {
	entry := rpcbind.Entry{
		Prog: 0x20000123, Vers: 1, Netid: rpcbind.NetRDMA,
		Addr: rpcbind.Universal(netip.MustParseAddrPort("127.0.0.1:20049")),
	}
	ctx := context.Background()
	if err := rpcbind.Register(ctx, entry); err != nil {
		fmt.Println("no rpcbind here:", err)
		return
	}
	defer rpcbind.Unregister(ctx, entry)
	fmt.Println(rpcbind.Registered(ctx, entry.Prog, entry.Vers, entry.Netid))
	fmt.Println(rpcbind.Lookup(ctx, "127.0.0.1", entry.Prog, entry.Vers, entry.Netid))
}
