package probe_test

import (
	"context"
	"fmt"
	"net"
	"regexp"

	"github.com/stag-rdma/stag/conformance/internal/probe"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

func ExampleProber_Run() {
	l, _ := net.Listen("tcp", "127.0.0.1:0")
	srv := &transport.Server{Handler: rpc.HandlerFunc(func(context.Context, *rpc.Request, *rpc.Response) {})}
	go srv.Serve(l)
	defer srv.Close()

	p := probe.Prober{Address: l.Addr().String(), Only: regexp.MustCompile("^mpa/(wrong-key|markers)$")}
	failed, err := p.Run(context.Background(), func(r *probe.Result) {
		fmt.Println(r.Name, r.Verdict)
		for _, t := range r.Tries {
			fmt.Println(" ", t.Name, t.Did)
		}
	})
	fmt.Println(failed, err)
	// Output:
	// mpa/wrong-key ok
	//   last octet closed the connection
	//   that of a Reply closed the connection
	//   not MPA at all closed the connection
	// mpa/markers ok
	//    answered SUCCESS
	// 0 <nil>
}

func ExampleProber_Cases() {
	p := probe.Prober{Only: regexp.MustCompile("^mpa/revision$")}
	for _, c := range p.Cases() {
		fmt.Printf("%s: %s\nwants %s\n", c.Name, c.Sends, c.Wants)
	}
	// Output:
	// mpa/revision: a Request of a revision that does not exist, or of the RDMA Consortium's
	// wants closed, rejected
}
