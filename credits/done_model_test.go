package credits_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stag-rdma/stag/credits"
)

// window is what a client of the model spends: ours, or one that follows the letter of
// RFC 5666 Section 3.3, "the most recent server-granted credit value minus the number of
// requests in flight", and accounts "for its required Done messages" (Section 3.8).
type window interface {
	call() bool // takes a credit for a call
	done() bool // may an RDMA_DONE that is due be sent?
	reply(grant uint32, exposed bool)
	read() // an exposed reply was read
}

// ours is the Requester as package rpcrdma uses it.
type ours struct {
	credits.Requester
	paid int
}

func (w *ours) call() bool { return w.Take() }

func (w *ours) done() bool {
	switch {
	case w.paid > 0:
		w.paid--
	case !w.TakeDone() && w.InFlight() > 0:
		return false
	}
	return true
}

func (w *ours) reply(g uint32, exposed bool) {
	w.Grant(g)
	for range w.paid {
		w.TakeDone()
	}
	if !exposed {
		w.Release()
	}
}

func (w *ours) read() {
	w.Release()
	if w.TakeDone() {
		w.paid++
	}
}

// literal reserves a credit for each RDMA_DONE when it learns of it.
type literal struct{ grant, calls, due, sent int }

func (w *literal) call() bool {
	if w.calls+w.due+w.sent >= w.grant {
		return false
	}
	w.calls++
	return true
}

func (w *literal) done() bool {
	w.due--
	w.sent++
	return true
}

func (w *literal) reply(g uint32, exposed bool) {
	w.grant, w.sent = int(g), 0
	w.calls--
	if exposed {
		w.due++
	}
}

func (w *literal) read() {}

// doneModel is a connection on which some replies are read.
type doneModel struct {
	t       *testing.T
	rng     *rand.Rand
	w       window
	p       credits.Responder
	asked   uint32
	most    int
	up      []bool // in flight to the server: an RDMA_DONE, or a call
	down    []answered
	serving []bool // exposed, or not
	reading int
	due     int
	calls   int // made
	ended   int
}

type answered struct {
	grant   uint32
	exposed bool
}

func (m *doneModel) post() { m.p.Posted(m.p.Need()) }

// step does what may happen next, of six kinds; it reports whether something did.
func (m *doneModel) step(kind int) bool {
	switch {
	case kind == 0 && m.w.call():
		m.up, m.calls = append(m.up, false), m.calls+1
	case kind == 1 && len(m.up) > 0:
		m.arrive()
	case kind == 2 && len(m.serving) > 0:
		return m.answer(m.rng.IntN(len(m.serving)))
	case kind == 3 && len(m.down) > 0:
		a := m.down[0]
		m.down = m.down[1:]
		m.w.reply(a.grant, a.exposed)
		if a.exposed {
			m.reading++
		} else {
			m.ended++
		}
	case kind == 4 && m.reading > 0:
		m.reading--
		m.w.read()
		m.ended++
		m.due++
	case kind == 5 && m.due > 0 && m.w.done():
		m.due--
		m.up = append(m.up, true)
	default:
		return false
	}
	if err := m.p.Check(); err != nil {
		m.t.Fatal(err)
	}
	return true
}

// arrive is the next Send at the server.
func (m *doneModel) arrive() {
	done := m.up[0]
	m.up = m.up[1:]
	if m.p.Receives() == 0 {
		m.t.Fatal("a Send finds no receive")
	}
	switch {
	case done && !m.p.Done():
		m.t.Fatal("an RDMA_DONE that was not expected")
	case !done:
		if !m.p.Received() {
			m.t.Fatal("a call without a credit")
		}
		m.serving = append(m.serving, m.rng.IntN(2) == 0)
	}
	m.post()
}

// answer sends a reply, or withholds it.
func (m *doneModel) answer(i int) bool {
	exposed := m.serving[i]
	if exposed && m.p.Exposed() >= m.most {
		return false
	}
	m.serving = append(m.serving[:i], m.serving[i+1:]...)
	if exposed {
		m.p.Expose()
	}
	m.post()
	m.down = append(m.down, answered{m.p.Grant(m.asked), exposed})
	return true
}

// TestDoneModel: in no interleaving does a Send find no receive, does a call or an
// RDMA_DONE wait for ever, or is a client left without a credit when all is answered (RFC
// 5666 Section 11).
func TestDoneModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %#x", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range 1000 {
		limit := uint32(1 + rng.IntN(12))
		m := &doneModel{t: t, rng: rng, asked: uint32(1 + rng.IntN(12)), most: 1 + rng.IntN(6), p: credits.NewResponder(limit)}
		m.w = &literal{grant: 1}
		if i%2 == 0 {
			q := credits.NewRequester(m.asked)
			q.KeepDone(true)
			m.w = &ours{Requester: q}
		}
		m.post()
		for range 200 {
			m.step(rng.IntN(6))
		}
		for range 10000 { // no new calls: everything comes to its end
			if m.ended == m.calls && m.due == 0 && len(m.up) == 0 {
				break
			}
			m.step(1 + rng.IntN(5))
		}
		if m.ended != m.calls || m.due > 0 || m.p.Exposed() > 0 {
			t.Fatalf("stuck: %+v, window %+v, responder %+v", m, m.w, m.p)
		}
		if !m.w.call() {
			t.Fatalf("no credit is left: %+v, responder %+v", m.w, m.p)
		}
	}
}
