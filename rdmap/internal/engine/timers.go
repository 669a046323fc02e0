package engine

import (
	"slices"
	"sync/atomic"
	"time"
)

// Keepalive wakes a peer that has missed the first FPDUs. Linux's siw (6.1, siw_accept) sends the MPA Reply before it
// asks TCP for notice of input. So what arrives in between stays in its socket until something follows, and an initiator
// that waits for an answer would wait for ever. What follows is an RDMA Write of no octets: it has no effect, and its STag
// and TO are not checked (RFC 5041 Section 7.1).
type Keepalive struct{ ticks int }

// keepaliveAt are the ticks, of 40 ms, after the first output: after 200 ms and after a second.
var keepaliveAt = []int{5, 25}

// Tick takes one tick, and whether the peer has sent anything. It reports whether a keepalive is due, and whether there
// are more ticks to be taken.
func (k *Keepalive) Tick(heard bool) (due, more bool) {
	if heard {
		return false, false
	}
	k.ticks++
	return slices.Contains(keepaliveAt, k.ticks), k.ticks < keepaliveAt[len(keepaliveAt)-1]
}

// PartialState is the state of an FPDU that the peer has begun and not completed.
type PartialState uint8

const (
	// PartialNone: nothing is held for one. Left by a tick that finds some.
	PartialNone PartialState = iota
	// PartialActive: octets of it arrive, or it has only been found. What is held stays, because to exchange it would copy.
	// Left by a tick in which few have arrived, and when it is complete.
	PartialActive
	// PartialSilent: hardly any have arrived for a tick or two. What is held is exchanged for less. Left by input.
	PartialSilent
)

// active is how many octets in a tick of 40 ms make a peer active: 100 KiB a second. One that sends an octet now and
// then holds as much memory as one that sends nothing.
const active = 4 << 10

// PartialFPDU watches the FPDU that the peer has begun, from tick to tick.
type PartialFPDU struct {
	state        PartialState
	seen         bool   // the fields below are those of a tick
	octets       uint64 // received
	fpdus, waits uint64 // completed; begun and ended for memory
}

// Tick takes whether octets are held for an incomplete FPDU, and three counts that never fall: octets received,
// complete FPDUs, and waits for memory begun or ended. another is true if the present FPDU was not there, or did
// not wait for memory, or the reverse, at the last tick: then the time for all of it begins. So a peer that sends an
// octet now and then does not keep us waiting.
func (p *PartialFPDU) Tick(held bool, octets, fpdus, waits uint64) (state PartialState, another bool) {
	another = held && (!p.seen || p.fpdus != fpdus || p.waits != waits)
	switch {
	case !held:
		p.state = PartialNone
	case octets-p.octets >= active || !p.seen:
		p.state = PartialActive
	default:
		p.state = PartialSilent
	}
	p.seen, p.octets, p.fpdus, p.waits = held, octets, fpdus, waits
	return p.state, another
}

// memoryWait is the wait of queue 0 for memory of the Pool. It begins when a Send is put off (EvStalled), and ends when
// that Send gets its memory, or with the connection when Limit is over.
type memoryWait struct {
	Limit time.Duration
	since time.Time // zero: no wait
	turns atomic.Uint64
}

// Begin begins a wait.
func (w *memoryWait) Begin(now time.Time) {
	w.since = now
	w.turns.Add(1)
}

func (w *memoryWait) end() {
	if w.waits() {
		w.since = time.Time{}
		w.turns.Add(1)
	}
}

func (w *memoryWait) waits() bool { return !w.since.IsZero() }

func (w *memoryWait) over(now time.Time) bool { return now.Sub(w.since) >= w.Limit }

// Turns returns how many waits have begun and ended so far. Anybody may call it.
func (w *memoryWait) Turns() uint64 { return w.turns.Load() }
