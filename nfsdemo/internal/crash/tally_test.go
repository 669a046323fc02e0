package crash

import (
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// tally counts what the answers on lists promised: a check of lists that promised nothing proves nothing.
type tally struct {
	acked     int
	stable    int // writes that were durable when they were answered
	committed int // files that a COMMIT made durable
	changed   int // answers with another verifier than that of the data before
	rewritten int // writes of data that such an answer had given up
	again     int // calls that were answered once more, the same as the first time
	open      int
}

// String describes the counts for a log.
func (c *tally) String() string {
	return fmt.Sprintf("%d acknowledged, %d stable, %d committed, %d verifiers changed, %d rewritten, %d sent again, %d open",
		c.acked, c.stable, c.committed, c.changed, c.rewritten, c.again, c.open)
}

func (c *tally) add(h *History) {
	c.again += len(h.Again)
	m := NewModel(h.Worker)
	lost := make(map[*node]bool) // some of its data may be
	for i, o := range h.Ops {
		res := h.Results[i]
		if res == nil {
			c.open++
			continue
		}
		c.acked++
		if n := m.find(o.Path); n != nil && res.Status == nfs3.OK {
			c.count(o, res, n, lost)
		}
		if res.Status != nfs3.ErrJukebox {
			m.Apply(o, res)
		}
	}
}

// count counts an answer about a file that is as n before.
func (c *tally) count(o *Op, res *Result, n *node, lost map[*node]bool) {
	switch {
	case o.Kind == Write && res.Stable:
		c.stable++
		if lost[n] {
			c.rewritten++
			delete(lost, n)
		}
	case o.Kind != Write && o.Kind != Commit || !n.loose:
	case n.verf != res.Verf:
		c.changed++
		lost[n] = true
	case o.Kind == Commit && !n.mixed:
		c.committed++
	}
}

// TestTally: what is counted is what a client would have to do again.
func TestTally(t *testing.T) {
	attr := &nfs3.Attr{Type: nfs3.TypeReg}
	h := &History{Worker: 1}
	do := func(o Op, res *Result) {
		o.N, o.Path = uint32(len(h.Ops)+1), "w1"
		h.Ops, h.Results = append(h.Ops, &o), append(h.Results, res)
	}
	unstable := Op{Kind: Write, Pieces: 2}
	do(Op{Kind: Guarded}, &Result{Attr: attr})
	do(unstable, &Result{Verf: 1})
	do(Op{Kind: Commit}, &Result{Verf: 1})
	do(unstable, &Result{Verf: 1})
	do(Op{Kind: Commit}, &Result{Verf: 2}) // the server has lost them
	do(Op{Kind: Write, Pieces: 2, Stable: nfs3.FileSync}, &Result{Stable: true, Verf: 2})
	do(Op{Kind: Write, Pieces: 1, Stable: nfs3.FileSync}, &Result{Stable: true, Verf: 2})
	do(Op{Kind: Remove}, nil)
	h.Again = []Repeat{{1, h.Results[0]}}
	var got tally
	got.add(h)
	if want := (tally{acked: 7, stable: 2, committed: 1, changed: 1, rewritten: 1, again: 1, open: 1}); got != want {
		t.Errorf("%v, want %v", &got, &want)
	}
}
