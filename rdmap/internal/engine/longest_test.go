package engine_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/internal/enginetest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestLongestWrite: an RDMA Write whose segments all go to the same octets. Its length is counted in more
// than 32 bits, however long a region can be.
func TestLongestWrite(t *testing.T) {
	const n = engine.StagMULPDU - ddp.TaggedLen
	e := newEngine(engineConfig{nocrc: true})
	mem := &enginetest.Counting{Mem: make([]byte, n), Anywhere: true}
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

// TestLongestRefused: requests for 2^32-1 octets of a region that has fewer, at offsets
// around every edge, and responses that reach beyond such a request.
func TestLongestRefused(t *testing.T) {
	for _, to := range []uint64{0, 1, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1<<63 - 1, math.MaxUint64} {
		for op, wr := range map[verbs.Opcode]verbs.WR{
			verbs.OpReadRequest:   {},
			verbs.OpFlushRequest:  {Flags: verbs.FlushPersistent},
			verbs.OpVerifyRequest: {},
		} {
			a, b := newEngine(engineConfig{ord: 1, ext: engine.ExtAll}), newEngine(engineConfig{ird: 1, ext: engine.ExtAll})
			_, reg := b.register(t, 100, enginetest.CommitRights)
			wr.Op, wr.STag, wr.TO, wr.Len = op, reg.STag(), to, engine.MaxMessage
			a.post(wr)
			exchange(a, b)
			if pe, ok := errors.AsType[*verbs.ProtocolError](b.err); !ok || pe.Code.Layer != verbs.LayerRDMAP || pe.Code.EType != 1 {
				t.Errorf("%v at %#x: %v", op, to, b.err)
			}
		}
		e := newEngine(engineConfig{ord: 1})
		_, sink := e.register(t, 100, region.ReadSink)
		e.post(verbs.WR{Op: verbs.OpReadRequest, Sink: sink.STag(), SinkTO: to, Len: engine.MaxMessage})
		e.output()
		e.input(enginetest.FPDU(enginetest.ReadResponse(t, sink.STag(), to+engine.MaxMessage-15))) // 16 octets
		if pe, ok := errors.AsType[*verbs.ProtocolError](e.err); !ok || pe.Code != engine.Violations[engine.VioReadBounds].Code || pe.Section != engine.Violations[engine.VioReadBounds].Section {
			t.Errorf("response beyond %#x: %v", to, e.err)
		}
	}
}

// TestManyReceives: more receives than fit into 32 bits.
func TestManyReceives(t *testing.T) {
	e := newEngine(engineConfig{})
	e.rcv.Recvs.Store(1 << 40)
	e.input(enginetest.FPDU(sendSegment(1, 0, true, "x")))
	if e.err != nil || e.rcv.Recvs.Load() != 1<<40-1 {
		t.Error(e.err, e.rcv.Recvs.Load())
	}
}
