package engine_test

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestSendsDoNotStarveResponses: the response to a Read is sent although the send queue is never empty,
// and the other way round.
func TestSendsDoNotStarveResponses(t *testing.T) {
	a := newEngine(engineConfig{mulpdu: engine.StagMULPDU, ird: 4})
	_, reg := a.register(t, 100, region.RemoteRead)
	rr := engine.ReadRequest{Size: 100, Src: reg.STag()}
	var req engine.Request
	req.Op = verbs.OpReadRequest
	rr.Append(req.Body[:0])
	refill := func() {
		for a.snd.Requests().Len() < 1000 {
			a.post(verbs.WR{Op: verbs.OpSend, Head: []byte("small")})
		}
	}
	for range 5 {
		refill()
		if !a.snd.Request(&req) {
			t.Fatal("no slot")
		}
		for batches := 0; a.snd.Responses().Len() > 0; batches++ {
			if batches == 2 {
				t.Fatal("the response waits for ever after Sends")
			}
			refill()
			if !a.snd.Take(&a.wk) {
				t.Fatal("nothing to send")
			}
			_ = a.wk.Build(a.snd.MULPDU, true, a.snd.Table)
			a.due = a.snd.Wrote(&a.wk, false, a.due)
		}
	}
}

// TestResponsesDoNotStarveSends: however many responses wait, a Send follows the one that is being
// sent, or, if the peer permits that, goes between its segments.
func TestResponsesDoNotStarveSends(t *testing.T) {
	const size = 4 << 20
	for _, interleave := range []bool{false, true} {
		e := newEngine(engineConfig{mulpdu: engine.StagMULPDU, ird: 8, interleave: interleave})
		_, reg := e.register(t, size, region.RemoteRead)
		req := engine.Request{Op: verbs.OpReadRequest}
		rr := engine.ReadRequest{Size: size, Src: reg.STag()}
		rr.Append(req.Body[:0])
		most := size + 2*buf.BatchOctets
		if interleave {
			most = 2 * buf.BatchOctets
		}
		for range 4 {
			for e.snd.Request(&req) {
			}
			sendBatch(t, e)
			var d rdmaptest.Done
			e.post(verbs.WR{Op: verbs.OpSend, Head: []byte("small"), Done: &d})
			for sent := 0; d.N == 0; {
				if sent > most {
					t.Fatalf("interleave=%v: %d octets of responses left before a Send", interleave, sent)
				}
				for e.snd.Request(&req) { // there are always more
				}
				sent += sendBatch(t, e)
			}
		}
	}
}

// sendBatch sends one batch and returns its octets.
func sendBatch(t *testing.T, e *halves) int {
	t.Helper()
	if !e.snd.Take(&e.wk) {
		t.Fatal("nothing to send")
	}
	_ = e.wk.Build(e.snd.MULPDU, true, e.snd.Table)
	e.wk.Batch.Begin(false)
	n := e.wk.Batch.Size()
	e.due = e.snd.Wrote(&e.wk, false, e.due)
	engine.Fire(e.due)
	e.due = e.due[:0]
	return n
}
