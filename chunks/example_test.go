package chunks_test

import (
	"fmt"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/xdr"
)

// The receiver of a call decodes the lists and learns where everything goes
// before it allocates or pulls anything.
func ExampleLayout_Build() {
	wire := (&chunks.Lists{Read: []chunks.ReadSegment{
		{Position: 8, Segment: chunks.Segment{Handle: 0xa1, Length: 5, Offset: 0x1000}},
	}}).Append(nil)

	var lists chunks.Lists
	d := xdr.NewDecoder(wire)
	if err := lists.Decode(&d, nil); err != nil {
		fmt.Println(err)
		return
	}
	payload := append([]byte{0, 0, 0, 1, 0, 0, 0, 5}, "TAIL"...)
	var l chunks.Layout
	if err := l.Build(lists.Read, len(payload), nil); err != nil {
		fmt.Println(err)
		return
	}
	buf := make([]byte, l.Total)
	l.Place(buf, payload)
	for _, p := range l.Pulls {
		fmt.Printf("read %d octets of %v at %#x\n", p.Length, p.Handle, p.Offset)
		copy(buf[p.Dst:p.Dst+int(p.Length)], "hello")
	}
	fmt.Printf("%q\n", buf)
	// Output:
	// read 5 octets of 0x000000a1 at 0x1000
	// "\x00\x00\x00\x01\x00\x00\x00\x05hello\x00\x00\x00TAIL"
}
