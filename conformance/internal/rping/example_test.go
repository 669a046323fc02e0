package rping_test

import (
	"context"
	"fmt"
	"net"

	"github.com/stag-rdma/stag/conformance/internal/rping"
	"github.com/stag-rdma/stag/rdmap"
)

func Example() {
	l, _ := net.Listen("tcp", "127.0.0.1:0")
	s := &rping.Server{Conns: 1, Report: func(r rping.Result) { fmt.Println("server:", r.Pings, "pings,", r.Err) }}
	done := make(chan error)
	go func() { done <- s.Serve(context.Background(), l) }()

	state, err := rping.Dial(context.Background(), l.Addr().String(), rdmap.CRCOn, &rping.Options{Size: 60000, Count: 3})
	serveErr := <-done
	fmt.Println("client: CRC", state.CRC, err, serveErr)
	// Output:
	// server: 3 pings, <nil>
	// client: CRC true <nil> <nil>
}

func ExampleParseInfo() {
	b := rping.Info{Addr: 0x1000, RKey: 0xabcd00, Len: 64}.Append(nil)
	info, err := rping.ParseInfo(b)
	fmt.Printf("% x\n%#x %d %v\n", b, info.Addr, info.Len, err)
	// Output:
	// 00 00 00 00 00 00 10 00 00 ab cd 00 00 00 00 40
	// 0x1000 64 <nil>
}
