package replies

import (
	"cmp"
	"slices"
)

// asked holds the calls that were issued and still need an answer. It has one owner.
type asked struct {
	live map[callKey]*Issued
	over []callKey // no longer live, which the log does not say yet
}

func newAsked() asked { return asked{live: make(map[callKey]*Issued)} }

// begin adds a call before it is noted in the log.
func (a *asked) begin(i *Issued) { a.live[i.key()] = i }

// end notes that a call needs no answer anymore. It reports whether that is news.
func (a *asked) end(k callKey) bool {
	if a.live[k] == nil {
		return false
	}
	delete(a.live, k)
	a.over = append(a.over, k)
	return true
}

// take returns the calls whose end must be written to the log.
func (a *asked) take() []callKey {
	over := a.over
	a.over = nil
	return over
}

// recovered takes a record that was in the log when it was opened; the records come in order. It
// reports whether the log is a log of calls.
func (a *asked) recovered(payload []byte) bool {
	i, over, ok := parseNote(payload)
	if i != nil {
		a.begin(i)
	}
	for _, k := range over {
		delete(a.live, k)
	}
	return ok
}

// calls returns the live calls, those of earlier processes first.
func (a *asked) calls() []*Issued {
	all := make([]*Issued, 0, len(a.live))
	for _, i := range a.live {
		all = append(all, i)
	}
	slices.SortFunc(all, func(i, j *Issued) int {
		if i.Epoch != j.Epoch {
			return cmp.Compare(i.Epoch, j.Epoch)
		}
		return int(int32(i.XID - j.XID)) // XIDs go up by one and wrap
	})
	return all
}

// noteRoom returns about how many octets of a ring a record of n octets takes, not counting a filler.
func noteRoom(n int) uint64 { return (uint64(n) + 28 + 63) &^ 63 }
