package judge_test

import (
	"math"

	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/conformance/internal/judge/internal/twin"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// the changes the n-th segment of an opcode.
func the(op verbs.Opcode, n int, f func(*twin.Frame)) func(*twin.Trace) {
	return func(t *twin.Trace) { f(t.Nth(op, n)) }
}

// In every, the initiator's second Send has three segments: the Sends 2, 3 and 4; so has the
// responder's Write.
var ddpTwins = map[string]twinOf{
	"DDP-001": {good: every, mutate: the(verbs.OpSend, 0, func(f *twin.Frame) { f.ULPDU = func(b []byte) []byte { return b[:17] } })},
	"DDP-002": {good: every, mutate: the(verbs.OpSend, 0, func(f *twin.Frame) { f.Seg.DV = 2 })},
	"DDP-003": {good: every, mutate: the(verbs.OpWrite, 0, func(f *twin.Frame) { f.Reserved = 0x20 })},
	"DDP-004": {good: every, mutate: the(verbs.OpSend, 1, func(f *twin.Frame) { f.Seg.QN = 4 })},
	"DDP-005": {good: every, mutate: func(t *twin.Trace) {
		t.Drop(t.Nth(verbs.OpSendSE, 0))
	}},
	"DDP-006": {good: every, mutate: the(verbs.OpSend, 4, func(f *twin.Frame) { f.Seg.MSN++ })},
	"DDP-007": {good: every, mutate: the(verbs.OpSend, 3, func(f *twin.Frame) { f.Seg.MO += 4 })},
	"DDP-008": {good: every, mutate: the(verbs.OpSend, 3, func(f *twin.Frame) { f.Seg.Control = 0x45 })},
	"DDP-009": {good: every, mutate: func(t *twin.Trace) {
		w := frames(t, verbs.OpWrite)
		w[1].Seg.TO, w[2].Seg.TO = w[1].Seg.TO+4, w[2].Seg.TO+4
	}},
	"DDP-010": {good: every, mutate: func(t *twin.Trace) {
		w := frames(t, verbs.OpWrite)
		from := uint64(math.MaxUint64) - 149
		for i := range 3 {
			w[i].Seg.TO = from + uint64(64*i) + 1
		}
	}},
	"DDP-011": {good: every, mutate: func(t *twin.Trace) {
		last := t.Nth(verbs.OpWrite, 2)
		t.Drop(last)
		t.After(t.Nth(verbs.OpWrite, 1), &twin.Frame{Dir: last.Dir, Seg: last.Seg, Payload: last.Payload})
		other := t.Nth(verbs.OpWrite, 2)
		other.Seg.STag, other.Seg.TO = 0x5500, 0
	}},
	"DDP-012": {good: every, mutate: func(t *twin.Trace) { // the last Send of the responder
		s := frames(t, verbs.OpSend)
		s[len(s)-1].Seg.Last = false
	}},
	"DDP-013": { // 4 GiB are too long for a test
		good: every, mutate: the(verbs.OpSend, 0, func(f *twin.Frame) { f.Payload = octets(1024) }),
		setup: func(j *judge.Judge) { j.SetTooLong(1000) },
	},
}
