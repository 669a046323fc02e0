package rdmaptest_test

import (
	"context"
	"fmt"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// A peer that writes where it may not, and gets a Terminate.
func ExampleInitiate() {
	a, b := rdmaptest.Pipe()
	y := rdmap.Server(b, nil)
	go func() {
		_ = y.Handshake(context.Background())
		_ = y.Serve()
	}()
	p, neg, err := rdmaptest.Initiate(a, &mpa.Config{IRD: 1, ORD: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("CRC:", neg.CRC)
	_ = p.SendSegment(p.Untagged(uint8(verbs.OpSend), ddp.QNSend), []byte("hello")) // is fine
	_ = p.SendSegment(p.Tagged(uint8(verbs.OpWrite), 0xbad, 0), []byte("octets"))   // is not
	for {
		s, payload, err := p.NextSegment()
		if err != nil {
			fmt.Println(err)
			break
		}
		if s.QN == ddp.QNTerminate {
			term, err := verbs.ParseTerminate(payload)
			fmt.Println(term.Code, err)
			_ = a.CloseWrite()
		}
	}
	<-y.Done()
	// Output:
	// CRC: true
	// 0x1/0x1/0x00 tagged, invalid STag <nil>
	// EOF
}
