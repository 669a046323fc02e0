package engine_test

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/conntest"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestLongestWrite: an RDMA Write whose segments all go to the same octets. Its length is counted in more
// than 32 bits, however long a region can be.
func TestLongestWrite(t *testing.T) {
	const n = engine.StagMULPDU - ddp.TaggedLen
	e := newEngine(engineConfig{nocrc: true})
	mem := &conntest.Counting{Mem: make([]byte, n), Anywhere: true}
	reg, _ := e.snd.Table.RegisterMemory(mem, region.Options{Access: region.RemoteWrite})
	s := ddp.Segment{Tagged: true, Control: engine.ControlOctet(verbs.OpWrite), STag: ddp.STag(reg.STag())}
	u := append(s.Append(nil), make([]byte, n)...)
	for left := uint64(engine.MaxMessage); left > 0; {
		k := min(left, n)
		left -= k
		s.Last = left == 0
		s.Append(u[:0])
		if _, err := e.rcv.Input(u[:ddp.TaggedLen+k]); err != nil {
			t.Fatalf("%d octets before the end: %v", left, err)
		}
	}
	if open, _ := e.rcv.DDP().Open(); open || mem.Stored != engine.MaxMessage || e.rcv.In.WriteOctets != engine.MaxMessage {
		t.Errorf("open %v, %d stored, %d counted", open, mem.Stored, e.rcv.In.WriteOctets)
	}
}
