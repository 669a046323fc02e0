package engine_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestOpcodeTable: control octets and queues are those of rdmap.md Section 2.
func TestOpcodeTable(t *testing.T) {
	for op := range verbs.Opcode(len(verbs.OpCounts{})) {
		if op.String() == "" || op.Tagged() && op.Queue() != 0 || engine.ControlOctet(op) != 0x40+byte(op) {
			t.Errorf("%v: tagged %v, queue %d, control %#x", op, op.Tagged(), op.Queue(), engine.ControlOctet(op))
		}
		if op.Tagged() != (op == verbs.OpWrite || op == verbs.OpReadResponse) {
			t.Errorf("%v: tagged %v", op, op.Tagged())
		}
	}
	if verbs.Opcode(0x12).String() != "Opcode(0x12)" || verbs.Opcode(0x12).Queue() != 0 || verbs.Opcode(0x12).Tagged() {
		t.Error("unknown opcode")
	}
	if !verbs.OpImmediateSE.Solicited() || verbs.OpSendInvalidate.Solicited() || !verbs.OpSendSEInvalidate.Invalidates() {
		t.Error("flags")
	}
}

// writeOf returns the Write of vector 4.1 with another target.
func writeOf(t testing.TB, stag region.STag, to uint64) []byte {
	u := rdmaptest.ULPDU(t, rdmaptest.Unhex(t, rdmaptest.Gold.Write))
	binary.BigEndian.PutUint32(u[2:], uint32(stag))
	binary.BigEndian.PutUint64(u[6:], to)
	return u
}

func own(t *testing.T, e *halves, n int, a region.Access) region.STag {
	_, reg := e.register(t, n, a)
	return reg.STag()
}

// reading starts a Read of 4096 octets and returns its sink.
func reading(t *testing.T, e *halves) region.STag {
	sink := own(t, e, 4096, region.ReadSink)
	e.post(verbs.WR{Op: verbs.OpReadRequest, Sink: sink, Len: 4096})
	e.output()
	return sink
}

// TestRefusalIsFinal: nothing after a segment that RDMAP has refused is handled.
func TestRefusalIsFinal(t *testing.T) {
	e := newEngine(engineConfig{recvs: 2})
	_, first := e.rcv.Input(rdmaptest.Patch(t, rdmaptest.Gold.Send, 1, 0x4f))
	if _, err := e.rcv.Input(rdmaptest.Patch(t, rdmaptest.Gold.Send, 0)); first == nil || !errors.Is(err, first) {
		t.Errorf("%v, and then %v", first, err)
	}
}
