package judge_test

import (
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/conformance/internal/judge/internal/twin"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// paired reports whether one of two rules is that of a receiver who carries on after a breach of the other.
func paired(a, b string) bool { return judge.ReceiverRule[a] == b || judge.ReceiverRule[b] == a }

// acceptTwins are those of receivers. The conversation goes on as if nothing had been wrong.
var acceptTwins = map[string]twinOf{
	"MPA-034":   {good: every, mutate: the(verbs.OpSend, 0, func(f *twin.Frame) { f.BadCRC = true })},
	"DDP-014":   {good: every, mutate: the(verbs.OpSend, 0, func(f *twin.Frame) { f.Seg.DV = 2 })},
	"DDP-015":   {good: every, mutate: the(verbs.OpSend, 1, func(f *twin.Frame) { f.Seg.QN = 4 })},
	"DDP-016":   {good: every, mutate: the(verbs.OpReadRequest, 1, func(f *twin.Frame) { f.Seg.MSN += 7 })},
	"DDP-017":   {good: every, mutate: the(verbs.OpSend, 1, func(f *twin.Frame) { f.Seg.MO += 4096 })},
	"RDMAP-007": {good: every, mutate: the(verbs.OpSend, 0, func(f *twin.Frame) { f.Seg.Control = 0x83 })},
	"RDMAP-042": {good: someNFSGood, mutate: func(t *twin.Trace) {
		f := t.Nth(verbs.OpReadRequest, 0)
		f.Payload[17] ^= 1
	}},
}

func someNFSGood() *twin.Trace { return someNFS(false) }

// TestCarriesOn: whatever frame of a caller is wrong, a responder that answers it, or calls after it, is
// blamed, and so is a caller that answers a wrong Read Request. Nobody is who falls silent.
func TestCarriesOn(t *testing.T) {
	wrong := map[string]func(*twin.Frame){
		"MPA-030":   func(f *twin.Frame) { f.BadCRC = true },
		"DDP-002":   func(f *twin.Frame) { f.Seg.DV = 3 },
		"DDP-004":   func(f *twin.Frame) { f.Seg.QN = 9 },
		"DDP-005":   func(f *twin.Frame) { f.Seg.MSN += 9 },
		"DDP-007":   func(f *twin.Frame) { f.Seg.MO = 1 << 30 },
		"RDMAP-001": func(f *twin.Frame) { f.Seg.Control &^= 0xc0 },
	}
	for id, change := range wrong {
		for n := range 4 { // the callee answers
			s := someNFS(true)
			s.Segment = 0
			f := callOf(s, n)
			change(f)
			wantPair(t, s, id, twin.I)

			s = someNFS(true)
			f = callOf(s, n)
			change(f)
			for i, g := range s.Frames {
				if g == f {
					s.Frames = s.Frames[:i+1]
					break
				}
			}
			if vs := judged(s, new(twinOf)); len(vs) != 1 || vs[0].Rule.ID != id {
				t.Errorf("%s, call %d, and silence: %v", id, n, vs)
			}
		}
	}
}

// callOf returns the frame of the n-th call.
func callOf(s *twin.Trace, n int) *twin.Frame {
	for _, f := range s.Frames {
		if f.Startup == nil && f.Dir == twin.I && !f.Seg.Tagged {
			if n--; n < 0 {
				return f
			}
		}
	}
	return nil
}

// wantPair fails unless the sender broke a rule, and the receiver that of carrying on, and nothing else.
func wantPair(t *testing.T, s *twin.Trace, id string, sender decode.Dir) {
	t.Helper()
	vs := judged(s, new(twinOf))
	if len(vs) != 2 || vs[0].Rule.ID != id || vs[0].Dir != sender || vs[1].Rule.ID != judge.ReceiverRule[id] || vs[1].Dir == vs[0].Dir {
		t.Errorf("%v, want %s and %s", vs, id, judge.ReceiverRule[id])
	}
}
