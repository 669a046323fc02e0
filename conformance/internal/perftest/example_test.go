package perftest_test

import (
	"context"
	"fmt"
	"net"

	"github.com/stag-rdma/stag/conformance/internal/perftest"
)

func Example() {
	l, _ := net.Listen("tcp", "127.0.0.1:0")
	s := &perftest.Server{Tests: 1, Report: func(r perftest.Result) { fmt.Println("server:", r.Written, "octets,", r.Err) }}
	done := make(chan error)
	go func() { done <- s.Serve(context.Background(), l) }()

	state, err := perftest.Dial(context.Background(), l.Addr().String(),
		&perftest.Options{Test: perftest.WriteBW, Size: 65536, Count: 10})
	serveErr := <-done
	fmt.Println("client: CRC", state.CRC, err, serveErr)
	// Output:
	// server: 655360 octets, <nil>
	// client: CRC true <nil> <nil>
}

func ExampleParseDest() {
	b := perftest.Dest{OutReads: 1, QPN: 4, RKey: 0x37bb6e00, VAddr: 0x563ebf0ef000}.Append(nil)
	d, err := perftest.ParseDest(b)
	fmt.Printf("% x\n%#x %#x %v\n", b[:32], uint32(d.RKey), d.VAddr, err)
	// Output:
	// 00 00 00 00 00 00 00 01 00 00 00 04 00 00 00 00 37 bb 6e 00 00 00 00 00 00 00 56 3e bf 0e f0 00
	// 0x37bb6e00 0x563ebf0ef000 <nil>
}
