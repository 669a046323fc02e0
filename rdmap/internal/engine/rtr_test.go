package engine_test

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

// TestSecondEmptySendIsNoRTR: only the first FPDU can be a ready-to-receive message.
func TestSecondEmptySendIsNoRTR(t *testing.T) {
	e := newEngine(engineConfig{recvs: 2})
	e.rcv.AwaitRTR()
	for msn := range byte(3) {
		e.input(rdmaptest.FPDU(rdmaptest.Patch(t, rdmaptest.GoldSendZero, 13, msn+1)))
	}
	if e.err != nil || len(e.got) != 2 || e.rcv.Recvs.Load() != 0 {
		t.Fatalf("%v, %d messages, %d receives", e.err, len(e.got), e.rcv.Recvs.Load())
	}
}
