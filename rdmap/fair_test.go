package rdmap

import (
	"net"
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestResponsesDoNotStarveSends: however many responses wait, a Send follows the one that is being
// sent, or, if the peer permits that, goes between its segments.
func TestResponsesDoNotStarveSends(t *testing.T) {
	const size = 4 << 20
	for _, interleave := range []bool{false, true} {
		e := newEngine(engineConfig{mulpdu: StagMULPDU, ird: 8, interleave: interleave})
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
			var d done
			e.post(verbs.WR{Op: verbs.OpSend, Head: []byte("small"), Done: &d})
			for sent := 0; d.n == 0; {
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

// stuck is a Handler whose upcalls wait.
type stuck struct{ inside, release chan struct{} }

func (h stuck) HandleRecv(*Conn, *verbs.Message) { h.inside <- struct{}{}; <-h.release }
func (h stuck) HandleClose(*Conn, error)         {}

// TestStreamsDoNotStarve: a stream whose upcall blocks, idle or in Serve, and one that is flooded do not
// disturb other streams of the process.
func TestStreamsDoNotStarve(t *testing.T) {
	onWires(t, func(t *testing.T, a, b net.Conn) {
		for _, serve := range []bool{false, true} {
			h := stuck{make(chan struct{}), make(chan struct{})}
			c, d := wires["pipe"](t)
			if _, tcp := a.(*net.TCPConn); tcp {
				c, d = tcpPair(t)
			}
			x, y := connect(t, c, d, nil, &Config{Handler: h})
			if err := x.Send(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			if serve {
				go y.Serve()
			}
			<-h.inside // and stays there
			defer close(h.release)
		}
		c, d := tcpPair(t)
		flood, sink := connect(t, c, d, nil, nil)
		target := mustRegister(t, sink, 1<<20, region.RemoteWrite)
		go sink.Serve()
		go func() {
			for flood.Write(t.Context(), make([]byte, 1<<20), target.STag(), 0) == nil {
			}
		}()
		hx := newCollector()
		x, y := connect(t, a, b, &Config{Handler: hx}, nil)
		reg := mustRegister(t, y, 5000, region.RemoteRead)
		go y.Serve()
		for i := range 2 {
			if err := x.Read(t.Context(), make([]byte, 5000), reg.STag(), 0); err != nil {
				t.Fatal(err)
			}
			if err := y.Send(t.Context(), []byte{byte(i)}); err != nil {
				t.Fatal(err)
			}
			within(t, "a message", hx.got)
		}
		flood.Abort(nil)
	})
}
