package ddp_test

import (
	"errors"
	"testing"

	"github.com/stag-rdma/stag/rdmap/ddp"
)

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
