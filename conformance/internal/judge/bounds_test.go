package judge_test

import (
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
)

// TestBoundsRPC: calls that are never answered, and the memory that they and the answered ones offer, are
// forgotten in the end; the answer to a forgotten call is not held against the responder.
func TestBoundsRPC(t *testing.T) {
	for _, segments := range []int{0, 50} {
		late, forgotten := 0, false
		j := judge.New(nil, func(v *judge.Violation) {
			if v.Rule.ID == "RPCRDMA-080" || v.Rule.ID == "RPCRDMA-050" {
				t.Error(v)
			}
		})
		conv := NewRPC()
		calls := make([]*Exchange, judge.MaxCalls+200)
		for i := range calls {
			x := conv.Null()
			for range segments {
				x.Call.Header.Reply = append(x.Call.Header.Reply, conv.NewSegment(8))
			}
			x.Call.Header.HasReply = segments > 0
			x.Reply.Header.Reply, _ = Fill(x.Call.Header.Reply, nil)
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
			k := j.Kept(t)
			late = max(late, k.Held)
			forgotten = forgotten || k.Forgot
			if k.Calls > judge.MaxCalls || k.Order > 2*judge.MaxCalls+64 || k.Held > judge.MaxMemory {
				t.Fatalf("%+v", k)
			}
		})
		if !forgotten || segments > 0 && late < judge.MaxMemory-segments {
			t.Errorf("%d segments each: %d kept, forgotten %t", segments, late, forgotten)
		}
	}
}

// TestBoundsAnswered: no more than the last calls that were answered are remembered, nor their memory.
func TestBoundsAnswered(t *testing.T) {
	j := judge.New(nil, func(v *judge.Violation) { t.Error(v) })
	conv := NewRPC()
	for range 3 * judge.MaxOld {
		x := conv.ReadFile(100)
		x.Call.Header.Write = []chunks.WriteChunk{x.Call.Header.Write[0]}
		conv.Do(x)
	}
	conv.Play(nil, func(ev *decode.Event) {
		j.Event(ev)
		if ev.Kind != decode.KindFPDU {
			return
		}
		if k := j.Kept(t); k.Old > judge.MaxOld || k.FIFO > judge.MaxOld || k.STags > 2*(judge.MaxOld+1) {
			t.Fatalf("%+v", k)
		}
	})
}
