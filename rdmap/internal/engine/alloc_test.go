package engine_test

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestEngineAllocs: once everything is warm there is no allocation per work request, per FPDU sent
// or received, per Send delivered, or per Read served or completed.
func TestEngineAllocs(t *testing.T) {
	for _, markers := range []bool{false, true} {
		engineAllocs(t, markers)
	}
}

func engineAllocs(t *testing.T, markers bool) {
	if rdmaptest.Poisoning {
		t.Skip("the race detector allocates")
	}
	a := newEngine(engineConfig{ord: 4, ird: 4, recvs: 1 << 30})
	b := newEngine(engineConfig{ord: 4, ird: 4, recvs: 1 << 30})
	if markers {
		a.wk.StartMarking()
		b.wk.StartMarking()
		a.df.ExpectMarkers()
		b.df.ExpectMarkers()
	}
	_, reg := b.register(t, 1<<20, rdmaptest.AllRights)
	_, sink := a.register(t, 1<<20, region.ReadSink)
	body := make([]byte, 100000)
	var d rdmaptest.Done
	wrs := []verbs.WR{
		{Op: verbs.OpSend, Head: body[:64], Done: &d},
		{Op: verbs.OpSend, Body: body[:4096]},
		{Op: verbs.OpWrite, STag: reg.STag(), Head: body[:10], Body: body, Done: &d},
		{Op: verbs.OpReadRequest, STag: reg.STag(), Sink: sink.STag(), Len: 100000, Done: &d},
		{Op: verbs.OpSend, Body: body[:10000], Done: &d},
	}
	// The engine of the tests collects octets in slices; here they go straight across.
	move := func(from, to *halves) (n int) {
		for from.snd.Take(&from.wk) {
			noErr(t, from.wk.Build(from.snd.MULPDU, true, from.snd.Table))
			for _, p := range from.wk.Batch.Pieces() {
				to.in = append(to.in, p...)
			}
			from.due = from.snd.Wrote(&from.wk, false, from.due)
			engine.Fire(from.due)
			from.due = from.due[:0]
		}
		for off := 0; ; {
			u, k, err := to.df.Next(to.in[off:])
			noErr(t, err)
			if k == 0 {
				to.in = to.in[:copy(to.in, to.in[off:])]
				return n
			}
			ev := must(to.rcv.Input(u))(t)
			to.rcv.Pool().Put(ev.Buf)
			engine.Fire(to.due)
			engine.Fire(to.rcv.Due)
			to.rcv.Due = to.rcv.Due[:0]
			to.due = to.due[:0]
			off += k
			n++
		}
	}
	fpdus := 0
	round := func() {
		a.snd.PostAll(wrs)
		fpdus += move(a, b)
		fpdus += move(b, a)
	}
	for range 10 {
		round()
	}
	fpdus = 0
	if n := testing.AllocsPerRun(100, round); n > 0 {
		t.Fatalf("markers %v: %v allocations per round of %d FPDUs", markers, n, fpdus/101)
	}
}
