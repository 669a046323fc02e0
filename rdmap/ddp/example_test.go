package ddp_test

import (
	"fmt"

	"github.com/stag-rdma/stag/rdmap/ddp"
)

// receives is a queue with room for that many messages of up to 64 octets.
type receives int

func (q *receives) Posted() int { return int(*q) }
func (q *receives) Size() int   { return 64 }

func (q *receives) Open(*ddp.Segment) ([]byte, bool) {
	*q--
	return make([]byte, 64), true
}

// window is memory under one STag.
type window struct {
	stag ddp.STag
	mem  []byte
}

func (w window) Sink(s *ddp.Segment, n int) ([]byte, ddp.Violation) {
	switch {
	case s.STag != w.stag:
		return nil, ddp.InvalidSTag
	case s.TO > uint64(len(w.mem)) || uint64(n) > uint64(len(w.mem))-s.TO:
		return nil, ddp.BaseBounds
	}
	return w.mem[s.TO : s.TO+uint64(n)], ddp.OK
}

func (w window) Placed(*ddp.Segment) {}

// A message in three segments from one side to the other.
func Example() {
	posted := receives(1)
	r := ddp.NewReceiver(ddp.Config{Queues: [ddp.NumQueues]ddp.Queue{ddp.QNSend: &posted}})

	message := "placed, then delivered"
	for off := 0; off < len(message); off += 8 {
		end := min(off+8, len(message))
		s := ddp.Segment{Control: 0x43, QN: ddp.QNSend, MSN: ddp.FirstMSN, MO: uint32(off), Last: end == len(message)}
		ulpdu := append(s.Append(nil), message[off:end]...)

		h, err := r.Header(ulpdu, len(ulpdu))
		if err != nil {
			fmt.Println(err)
			return
		}
		ev, err := r.Place(ulpdu[h.HeaderLen():])
		fmt.Println(ev.Placed, ev.Delivered, string(ev.Data), err)
	}
	// Output:
	// 8 false  <nil>
	// 8 false  <nil>
	// 6 true placed, then delivered <nil>
}

// A caller that knows the sink places the segments that continue a message itself.
func ExampleReceiver_Continue() {
	mem := window{stag: 0x11223344, mem: make([]byte, 64)}
	r := ddp.NewReceiver(ddp.Config{Sinks: mem})

	s := ddp.Segment{Tagged: true, Control: 0x40, STag: mem.stag}
	for _, word := range []string{"one ", "two ", "three"} {
		ulpdu := append(s.Append(nil), word...)
		s.TO += uint64(len(word))
		if r.Continues(ulpdu) {
			fmt.Printf("carries on: %q\n", word)
			r.Continue(copy(mem.mem[s.TO-uint64(len(word)):], word))
			continue
		}
		h, _ := r.Header(ulpdu, len(ulpdu))
		_, _ = r.Place(ulpdu[h.HeaderLen():])
	}
	fmt.Printf("%q\n", mem.mem[:s.TO])
	// Output:
	// carries on: "two "
	// carries on: "three"
	// "one two three"
}
