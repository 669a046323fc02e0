package ddp_test

import (
	"errors"
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

// lying is like receives, but needs no memory: a whole message is delivered where it lies.
type lying struct{ receives }

func (q *lying) Open(*ddp.Segment) ([]byte, bool) {
	q.receives--
	return nil, true
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

// A write that reaches one octet too far is refused as a whole.
func ExampleReceiver_Place() {
	mem := window{stag: 0x11223344, mem: []byte("........")}
	r := ddp.NewReceiver(ddp.Config{Sinks: mem})
	write := ddp.Segment{Tagged: true, Last: true, Control: 0x40, STag: mem.stag, TO: 4}
	ulpdu := append(write.Append(nil), "12345"...)

	h, _ := r.Header(ulpdu, len(ulpdu))
	_, err := r.Place(ulpdu[h.HeaderLen():])
	if e, ok := errors.AsType[*ddp.Error](err); ok {
		fmt.Printf("%v: Terminate %#x/%#x/%#02x\n", e.Violation, e.Layer, e.EType, e.Code)
	}
	fmt.Printf("%s\n", mem.mem)
	// Output:
	// base or bounds violation: Terminate 0x1/0x1/0x01
	// ........
}

// A large payload is read straight into its place.
func ExampleReceiver_Reserve() {
	mem := window{stag: 7, mem: make([]byte, 16)}
	r := ddp.NewReceiver(ddp.Config{Sinks: mem})
	header := (&ddp.Segment{Tagged: true, Last: true, Control: 0x42, STag: 7, TO: 3}).Append(nil)

	_, _ = r.Header(header, len(header)+6)
	dst, err := r.Reserve()
	fmt.Println(copy(dst, "direct"), err) // io.ReadFull(conn, dst)
	fmt.Printf("%v %q\n", r.Commit(nil).Delivered, mem.mem[:10])
	// Output:
	// 6 <nil>
	// true "\x00\x00\x00direct\x00"
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

// A caller that has posted enough buffers delivers a message like the one before itself.
func ExampleReceiver_Repeat() {
	posted := lying{3}
	r := ddp.NewReceiver(ddp.Config{Queues: [ddp.NumQueues]ddp.Queue{ddp.QNSend: &posted}})

	s := ddp.Segment{Last: true, Control: 0x43}
	for _, word := range []string{"one", "two", "three"} {
		s.MSN++
		ulpdu := append(s.Append(nil), word...)
		if posted.receives > 0 && r.Repeats(ulpdu) {
			posted.receives--
			r.Repeat(len(word))
			fmt.Printf("repeats: %q\n", ulpdu[ddp.UntaggedLen:])
			continue
		}
		h, _ := r.Header(ulpdu, len(ulpdu))
		ev, _ := r.Place(ulpdu[h.HeaderLen():])
		fmt.Printf("%q\n", ev.Data)
	}
	// Output:
	// "one"
	// repeats: "two"
	// repeats: "three"
}

func ExampleSegment_Parse() {
	var s ddp.Segment
	ok := s.Parse([]byte("\x41\x43\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00payload"))
	fmt.Println(ok, s.String())
	// Output: true untagged last control=0x43 ulp=00000000 qn=0 msn=5 mo=0
}

func ExampleMaxPayload() {
	fmt.Println(ddp.MaxPayload(true, 1442), ddp.MaxPayload(false, 1442))
	// Output: 1428 1424
}
