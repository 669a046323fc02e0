package ddp_test

import (
	"errors"
	"testing"

	"github.com/stag-rdma/stag/rdmap/ddp"
)

// MSNs are counted modulo 2^32, separately for each queue (RFC 5041 Section 4.3).
func TestMSNWrap(t *testing.T) {
	g := newRig()
	g.setNext(0, 1<<32-2)
	g.q[0].posted = 100
	for i := range uint32(5) {
		msn := 1<<32 - 2 + uint64(i)
		ev, err := g.receive(seg(ddp.Segment{Last: true, Control: 0x43, MSN: uint32(msn)}, "x"))
		if err != nil || !ev.Delivered {
			t.Fatalf("MSN %d: %v", uint32(msn), err)
		}
	}
	for qn, msn := range []uint32{3, 1} {
		ev, err := g.receive(seg(ddp.Segment{Last: true, Control: 0x43, QN: uint32(qn), MSN: msn}, "x"))
		if err != nil || !ev.Delivered {
			t.Errorf("queue %d, MSN %d: %v", qn, msn, err)
		}
	}
	// After the wrap, the number before it lies before the window.
	_, err := g.receive(seg(ddp.Segment{Last: true, Control: 0x43, MSN: 1<<32 - 1}, "x"))
	if !errors.Is(err, &ddp.Error{Violation: ddp.MSNRange}) {
		t.Errorf("%v", err)
	}
}

func TestMSNWindow(t *testing.T) {
	for _, tt := range []struct {
		msn, next uint32
		posted    int
		want      ddp.Violation
	}{
		{1, 1, 1, ddp.OK},
		{1, 1, 0, ddp.NoBuffer},
		{2, 1, 1, ddp.NoBuffer},
		{2, 1, 2, ddp.MSNRange},
		{0, 1, 9, ddp.MSNRange},
		{0, 0xffffffff, 1, ddp.NoBuffer},
		{0, 0xffffffff, 2, ddp.MSNRange},
		{5, 0xfffffffe, 7, ddp.NoBuffer},
		{5, 0xfffffffe, 8, ddp.MSNRange},
		{0xfffffffe, 5, 100, ddp.MSNRange},
		{0x80000001, 1, 4, ddp.MSNRange},
		{0x80000000, 1, 4, ddp.NoBuffer},
		{0x80000000, 1, 1<<31 - 1, ddp.NoBuffer},
	} {
		g := newRig()
		g.setNext(0, tt.next)
		g.q[0].posted = tt.posted
		_, err := g.receive(seg(ddp.Segment{Last: true, Control: 0x43, MSN: tt.msn}, "x"))
		got := ddp.OK
		if e, ok := errors.AsType[*ddp.Error](err); ok {
			got = e.Violation
		}
		if got != tt.want || (err == nil) != (got == ddp.OK) {
			t.Errorf("MSN %#x, next %#x, %d posted: %v, want %v", tt.msn, tt.next, tt.posted, err, tt.want)
		}
	}
}

// Segments of a message on queue 0, the second one wrong.
func TestUntaggedContinuation(t *testing.T) {
	for _, tt := range []struct {
		name string
		s    ddp.Segment
		pay  string
		want ddp.Violation
	}{
		{"right", ddp.Segment{Control: 0x43, MSN: 1, MO: 3}, "LO", ddp.OK},
		{"reserved control bits differ", ddp.Segment{Control: 0x73, MSN: 1, MO: 3}, "LO", ddp.OK},
		{"empty and last", ddp.Segment{Last: true, Control: 0x43, MSN: 1, MO: 3}, "", ddp.OK},
		{"next MSN", ddp.Segment{Control: 0x43, MSN: 2}, "LO", ddp.MSNRange},
		{"MSN far ahead", ddp.Segment{Control: 0x43, MSN: 200}, "LO", ddp.MSNRange},
		{"other opcode", ddp.Segment{Control: 0x45, MSN: 1, MO: 3}, "LO", ddp.Interleaved},
		{"other queue", ddp.Segment{Control: 0x43, QN: 1, MSN: 1}, "LO", ddp.Interleaved},
		{"gap", ddp.Segment{Control: 0x43, MSN: 1, MO: 4}, "LO", ddp.InvalidMO},
		{"repeated", ddp.Segment{Control: 0x43, MSN: 1}, "HEL", ddp.InvalidMO},
		{"MO 2^32-1", ddp.Segment{Control: 0x43, MSN: 1, MO: 1<<32 - 1}, "LO", ddp.InvalidMO},
		{"one octet too long", ddp.Segment{Control: 0x43, MSN: 1, MO: 3}, string(make([]byte, 62)), ddp.TooLong},
		{"full", ddp.Segment{Control: 0x43, MSN: 1, MO: 3}, string(make([]byte, 61)), ddp.OK},
		{"opcode before MSN", ddp.Segment{Control: 0x45, MSN: 7, MO: 9}, "LO", ddp.Interleaved},
		{"MO before length", ddp.Segment{Control: 0x43, MSN: 1, MO: 4}, string(make([]byte, 62)), ddp.InvalidMO},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newRig()
			if ev, err := g.receive(seg(ddp.Segment{Control: 0x43, MSN: 1}, "HEL")); err != nil || ev.Delivered {
				t.Fatalf("%+v, %v", ev, err)
			}
			_, err := g.receive(seg(tt.s, tt.pay))
			if tt.want == ddp.OK {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.Is(err, &ddp.Error{Violation: tt.want}) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			if got := string(g.q[0].opened[0][:6]); got != "HEL\x00\x00\x00" {
				t.Errorf("placed %q", got)
			}
		})
	}
}

// An opcode mask of five bits tells opcode 0x10 from 0x00.
func TestOpcodeMask(t *testing.T) {
	q := &fakeQueue{posted: 1, size: 64}
	r := ddp.NewReceiver(ddp.Config{Queues: [ddp.NumQueues]ddp.Queue{nil, q}, OpcodeMask: 0x1f})
	g := &rig{Receiver: r, sinks: &fakeSinks{}}
	if _, err := g.receive(seg(ddp.Segment{QN: 1, Control: 0x50, MSN: 1}, "x")); err != nil {
		t.Fatal(err)
	}
	if _, err := g.receive(seg(ddp.Segment{QN: 1, Control: 0x40, MSN: 1, MO: 1}, "x")); !errors.Is(err, &ddp.Error{Violation: ddp.Interleaved}) {
		t.Errorf("%v", err)
	}
}

// RFC 5041 Section 5.3: placed is not delivered.
func TestPlacedThenDelivered(t *testing.T) {
	g := newRig()
	for i, tt := range []struct {
		s         ddp.Segment
		pay       string
		delivered bool
		length    uint64
	}{
		{ddp.Segment{Control: 0x43, MSN: 1}, "", false, 0},
		{ddp.Segment{Control: 0x43, MSN: 1}, "A", false, 1},
		{ddp.Segment{Control: 0x43, MSN: 1, MO: 1}, "BC", false, 3},
		{ddp.Segment{Control: 0x43, MSN: 1, MO: 3, Last: true}, "D", true, 4},
		{ddp.Segment{Control: 0x43, MSN: 2, Last: true}, "", true, 0},
	} {
		ev, err := g.receive(seg(tt.s, tt.pay))
		if err != nil || ev.Delivered != tt.delivered || ev.Length != tt.length || ev.Placed != len(tt.pay) {
			t.Errorf("%d: %+v, %v", i, ev, err)
		}
		if !tt.delivered && ev.Data != nil {
			t.Errorf("%d: data before delivery", i)
		}
	}
	if got := string(g.q[0].opened[0][:4]); got != "ABCD" {
		t.Errorf("placed %q", got)
	}
}

// The buffers of a rig have 64 octets: a message of 64 fits, in one segment or more; one of 65 does not.
func TestBufferFull(t *testing.T) {
	for n, want := range map[int]ddp.Violation{63: ddp.OK, 64: ddp.OK, 65: ddp.TooLong} {
		for _, last := range []bool{true, false} {
			_, err := newRig().receive(seg(ddp.Segment{Last: last, Control: 0x43, MSN: 1}, string(make([]byte, n))))
			if want == ddp.OK && err != nil || want != ddp.OK && !errors.Is(err, &ddp.Error{Violation: want}) {
				t.Errorf("%d octets, last %v: %v", n, last, err)
			}
		}
	}
}
