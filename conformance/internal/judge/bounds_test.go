package judge

import (
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge/internal/twin"
)

// rpcOf returns the machine of the one connection.
func rpcOf(t *testing.T, j *Judge) *rpcMachine {
	t.Helper()
	for _, c := range j.conns {
		for _, m := range c.machines {
			if r, ok := m.(*rpcMachine); ok {
				return r
			}
		}
	}
	t.Fatal("no machine")
	return nil
}

// TestBoundsRPC: calls that are never answered, and the memory that they and the answered ones offer, are
// forgotten in the end; the answer to a forgotten call is not held against the responder.
func TestBoundsRPC(t *testing.T) {
	for _, segments := range []int{0, 50} {
		late, forgotten := 0, false
		var r *rpcMachine
		j := New(nil, func(v *Violation) {
			if v.Rule.ID == "RPCRDMA-080" || v.Rule.ID == "RPCRDMA-050" {
				t.Error(v)
			}
		})
		conv := twin.NewRPC()
		calls := make([]*twin.Exchange, maxCalls+200)
		for i := range calls {
			x := conv.Null()
			for range segments {
				x.Call.Header.Reply = append(x.Call.Header.Reply, conv.NewSegment(8))
			}
			x.Call.Header.HasReply = segments > 0
			x.Reply.Header.Reply, _ = twin.Fill(x.Call.Header.Reply, nil)
			x.Reply.Header.HasReply = segments > 0
			calls[i] = x
			conv.Ask(x)
		}
		last := calls[len(calls)-1]
		conv.Answer(last)
		conv.Answer(calls[0]) // forgotten long ago
		conv.Play(nil, func(ev *decode.Event) {
			j.Event(ev)
			if ev.Kind != decode.KindFPDU {
				return
			}
			r = rpcOf(t, j)
			s := &r.sides[0]
			late = max(late, s.held)
			forgotten = forgotten || s.forgot
			if len(s.calls) > maxCalls || len(s.order) > 2*maxCalls+64 || s.held > maxMemory {
				t.Fatalf("%d calls, %d in order, %d segments", len(s.calls), len(s.order), s.held)
			}
		})
		if !forgotten || segments > 0 && late < maxMemory-segments {
			t.Errorf("%d segments each: %d kept, forgotten %t", segments, late, forgotten)
		}
	}
}

// TestBoundsAnswered: no more than the last calls that were answered are remembered, nor their memory.
func TestBoundsAnswered(t *testing.T) {
	j := New(nil, func(v *Violation) { t.Error(v) })
	conv := twin.NewRPC()
	for range 3 * maxOld {
		x := conv.ReadFile(100)
		x.Call.Header.Write = []chunks.WriteChunk{x.Call.Header.Write[0]}
		conv.Do(x)
	}
	conv.Play(nil, func(ev *decode.Event) {
		j.Event(ev)
		if ev.Kind != decode.KindFPDU {
			return
		}
		if s := &rpcOf(t, j).sides[0]; len(s.old) > maxOld || len(s.fifo) > maxOld || len(s.mem) > 2*(maxOld+1) {
			t.Fatalf("%d answered, %d in order, %d STags", len(s.old), len(s.fifo), len(s.mem))
		}
	})
}

// TestSpans: pieces in any order make one; too many that do not touch count as all.
func TestSpans(t *testing.T) {
	var s spans
	for _, p := range [][2]uint64{{10, 20}, {30, 40}, {0, 5}, {20, 30}, {4, 11}} {
		s.add(p[0], p[1])
	}
	if len(s) != 1 || !s.cover(0, 40) || s.cover(0, 41) || !s.cover(7, 7) {
		t.Errorf("%v", s)
	}
	s = nil
	for i := range uint64(maxSpans) {
		s.add(i*10, i*10+5)
	}
	if len(s) != maxSpans || s.cover(0, 6) || !s.cover(20, 25) {
		t.Errorf("%d spans", len(s))
	}
	s.add(5, 5)
	s.add(maxSpans*10+1, maxSpans*10+2)
	if len(s) != 1 || !s.cover(0, maxSpans*10+2) {
		t.Errorf("%v", s)
	}
}
