package judge_test

import (
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
)

// endless returns a judge, and a function that shows it the next segment of an RDMA Write that never
// ends: 1428 octets of payload, as Linux sends them.
func endless(tb testing.TB) (next func()) {
	t := New().Startup()
	t.Segment = 1428
	t.Write(I, 0x3300, 0, make([]byte, 1428*3))
	j := judge.New(nil, func(v *judge.Violation) { tb.Error(v) })
	j.SetTooLong(1 << 62)
	var ev decode.Event
	t.Play(nil, func(e *decode.Event) {
		if ev.DDP != nil {
			return
		}
		j.Event(e)
		if e.DDP != nil {
			f, d, r := *e.FPDU, *e.DDP, *e.RDMAP
			ev = *e
			ev.FPDU, ev.DDP, ev.RDMAP = &f, &d, &r
		}
	})
	return func() {
		ev.DDP.TO += uint64(len(ev.DDP.Payload))
		j.Event(&ev)
	}
}

// TestNoAllocation: judging a frame that breaks no rule allocates nothing.
func TestNoAllocation(t *testing.T) {
	next := endless(t)
	for range judge.MaxHeaders { // until the ring of headers is full
		next()
	}
	if n := testing.AllocsPerRun(1000, next); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkJudge measures what a judge costs on top of the decoder, for small FPDUs.
func BenchmarkJudge(b *testing.B) {
	next := endless(b)
	b.SetBytes(1448)
	b.ReportAllocs()
	for b.Loop() {
		next()
	}
}
