package engine_test

import (
	"errors"
	"testing"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// sendSegment returns a segment of the Send with the given MSN.
func sendSegment(msn uint32, mo int, last bool, payload string) []byte {
	s := ddp.Segment{Control: engine.ControlOctet(verbs.OpSend), QN: ddp.QNSend, MSN: msn, MO: uint32(mo), Last: last}
	return append(s.Append(nil), payload...)
}

// TestFirstSendTakesReceive: if the first Send may be a ready-to-receive message but is not, it takes a receive like
// any other Send (RFC 6581 Section 9.2).
func TestFirstSendTakesReceive(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   [][]byte
		left int64
		ok   bool
	}{
		{"RTR", [][]byte{sendSegment(1, 0, true, "")}, 1, true},
		{"RTR and a Send", [][]byte{sendSegment(1, 0, true, ""), sendSegment(2, 0, true, "x")}, 0, true},
		{"a Send", [][]byte{sendSegment(1, 0, true, "x")}, 0, true},
		{"two", [][]byte{sendSegment(1, 0, true, "x"), sendSegment(2, 0, true, "x")}, 0, false},
		{"in pieces", [][]byte{sendSegment(1, 0, false, ""), sendSegment(1, 0, true, "")}, 0, true},
		{"empty ones", [][]byte{sendSegment(1, 0, true, ""), sendSegment(2, 0, true, ""), sendSegment(3, 0, true, "")}, 0, false},
	} {
		e := newEngine(engineConfig{recvs: 1})
		e.rcv.AwaitRTR()
		for _, u := range tt.in {
			e.input(rdmaptest.FPDU(u))
		}
		if (e.err == nil) != tt.ok || e.rcv.Recvs.Load() != tt.left {
			t.Errorf("%s: %v, %d receives left", tt.name, e.err, e.rcv.Recvs.Load())
		}
	}
	e := newEngine(engineConfig{})
	e.rcv.AwaitRTR()
	e.input(rdmaptest.FPDU(sendSegment(1, 0, true, "x")))
	if pe, ok := errors.AsType[*verbs.ProtocolError](e.err); !ok || pe.Code != rdmaptest.NoBuffer {
		t.Errorf("a first Send without a receive: %v", e.err)
	}
}
