package ddp

import (
	"errors"
	"testing"
)

// MSNs are counted modulo 2^32, separately for each queue (RFC 5041 Section 4.3).
func TestMSNWrap(t *testing.T) {
	g := newRig()
	g.next[0] = 1<<32 - 2
	g.q[0].posted = 100
	for i := range uint32(5) {
		msn := 1<<32 - 2 + uint64(i)
		ev, err := g.receive(seg(Segment{Last: true, Control: 0x43, MSN: uint32(msn)}, "x"))
		if err != nil || !ev.Delivered {
			t.Fatalf("MSN %d: %v", uint32(msn), err)
		}
	}
	if g.next[0] != 3 || g.next[1] != 1 {
		t.Errorf("next %v", g.next)
	}
	// After the wrap, the number before it lies before the window.
	_, err := g.receive(seg(Segment{Last: true, Control: 0x43, MSN: 1<<32 - 1}, "x"))
	if !errors.Is(err, &Error{Violation: MSNRange}) {
		t.Errorf("%v", err)
	}
}

func TestMSNWindow(t *testing.T) {
	for _, tt := range []struct {
		msn, next uint32
		posted    int
		want      Violation
	}{
		{1, 1, 1, OK},
		{1, 1, 0, NoBuffer},
		{2, 1, 1, NoBuffer},
		{2, 1, 2, MSNRange},
		{0, 1, 9, MSNRange},
		{0, 0xffffffff, 1, NoBuffer},
		{0, 0xffffffff, 2, MSNRange},
		{5, 0xfffffffe, 7, NoBuffer},
		{5, 0xfffffffe, 8, MSNRange},
		{0xfffffffe, 5, 100, MSNRange},
		{0x80000001, 1, 4, MSNRange},
		{0x80000000, 1, 4, NoBuffer},
		{0x80000000, 1, 1<<31 - 1, NoBuffer},
	} {
		if got := msnViolation(tt.msn, tt.next, tt.posted); got != tt.want {
			t.Errorf("MSN %#x, next %#x, %d posted: %v, want %v", tt.msn, tt.next, tt.posted, got, tt.want)
		}
	}
}

// Segments of a message on queue 0, the second one wrong.
func TestUntaggedContinuation(t *testing.T) {
	for _, tt := range []struct {
		name string
		s    Segment
		pay  string
		want Violation
	}{
		{"right", Segment{Control: 0x43, MSN: 1, MO: 3}, "LO", OK},
		{"reserved control bits differ", Segment{Control: 0x73, MSN: 1, MO: 3}, "LO", OK},
		{"empty and last", Segment{Last: true, Control: 0x43, MSN: 1, MO: 3}, "", OK},
		{"next MSN", Segment{Control: 0x43, MSN: 2}, "LO", MSNRange},
		{"MSN far ahead", Segment{Control: 0x43, MSN: 200}, "LO", MSNRange},
		{"other opcode", Segment{Control: 0x45, MSN: 1, MO: 3}, "LO", Interleaved},
		{"other queue", Segment{Control: 0x43, QN: 1, MSN: 1}, "LO", Interleaved},
		{"gap", Segment{Control: 0x43, MSN: 1, MO: 4}, "LO", InvalidMO},
		{"repeated", Segment{Control: 0x43, MSN: 1}, "HEL", InvalidMO},
		{"MO 2^32-1", Segment{Control: 0x43, MSN: 1, MO: 1<<32 - 1}, "LO", InvalidMO},
		{"one octet too long", Segment{Control: 0x43, MSN: 1, MO: 3}, string(make([]byte, 62)), TooLong},
		{"full", Segment{Control: 0x43, MSN: 1, MO: 3}, string(make([]byte, 61)), OK},
		{"opcode before MSN", Segment{Control: 0x45, MSN: 7, MO: 9}, "LO", Interleaved},
		{"MO before length", Segment{Control: 0x43, MSN: 1, MO: 4}, string(make([]byte, 62)), InvalidMO},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newRig()
			if ev, err := g.receive(seg(Segment{Control: 0x43, MSN: 1}, "HEL")); err != nil || ev.Delivered {
				t.Fatalf("%+v, %v", ev, err)
			}
			_, err := g.receive(seg(tt.s, tt.pay))
			if tt.want == OK {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.Is(err, &Error{Violation: tt.want}) {
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
	r := NewReceiver(Config{Queues: [NumQueues]Queue{nil, q}, OpcodeMask: 0x1f})
	g := &rig{Receiver: r, sinks: &fakeSinks{}}
	if _, err := g.receive(seg(Segment{QN: 1, Control: 0x50, MSN: 1}, "x")); err != nil {
		t.Fatal(err)
	}
	if _, err := g.receive(seg(Segment{QN: 1, Control: 0x40, MSN: 1, MO: 1}, "x")); !errors.Is(err, &Error{Violation: Interleaved}) {
		t.Errorf("%v", err)
	}
}

// RFC 5041 Section 5.3: placed is not delivered.
func TestPlacedThenDelivered(t *testing.T) {
	g := newRig()
	for i, tt := range []struct {
		s         Segment
		pay       string
		delivered bool
		length    uint64
	}{
		{Segment{Control: 0x43, MSN: 1}, "", false, 0},
		{Segment{Control: 0x43, MSN: 1}, "A", false, 1},
		{Segment{Control: 0x43, MSN: 1, MO: 1}, "BC", false, 3},
		{Segment{Control: 0x43, MSN: 1, MO: 3, Last: true}, "D", true, 4},
		{Segment{Control: 0x43, MSN: 2, Last: true}, "", true, 0},
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
	for n, want := range map[int]Violation{63: OK, 64: OK, 65: TooLong} {
		for _, last := range []bool{true, false} {
			_, err := newRig().receive(seg(Segment{Last: last, Control: 0x43, MSN: 1}, string(make([]byte, n))))
			if want == OK && err != nil || want != OK && !errors.Is(err, &Error{Violation: want}) {
				t.Errorf("%d octets, last %v: %v", n, last, err)
			}
		}
	}
}
