package decode

import "slices"

// assembler puts the payload octets of one direction of a TCP connection into order. It keeps
// copies of what arrives early, up to a limit, and drops what it has seen (retransmissions,
// keep-alive probes). It has no clock: a hole is given up only when the limit is reached or the
// capture ends.
//
// Sequence numbers are compared as signed differences, so streams may pass 2^32.
type assembler struct {
	synced bool   // next is known
	next   uint32 // sequence number of the next octet to deliver
	early  []earlyData
	held   int // octets in early, with earlyCost for each piece
	limit  int // most octets early may hold
}

// earlyData is payload that arrived before the octets in front of it.
type earlyData struct {
	seq uint32
	b   []byte
	at  Stamp
}

// earlyCost is what keeping one piece costs besides its octets, so that pieces of one octet do not
// cost much more than the limit says, in memory or in the time to sort them.
const earlyCost = 256

// maxWindow is the largest window of TCP in octets (RFC 7323 Section 2.3).
const maxWindow = 1 << 30

// sink receives octets in order. hole says that n octets before the next ones are not in the
// capture.
type sink interface {
	octets(b []byte, at Stamp)
	hole(n int, at Stamp)
}

// seqDiff returns a-b in sequence space.
func seqDiff(a, b uint32) int { return int(int32(a - b)) }

// sync sets the sequence number of the first octet, from a SYN.
func (a *assembler) sync(next uint32) {
	if !a.synced {
		a.synced, a.next = true, next
	}
}

// push takes the payload b of a segment with sequence number seq and delivers whatever has become
// contiguous. It borrows b. A direction whose SYN is not in the capture begins with the first
// segment seen.
func (a *assembler) push(seq uint32, b []byte, at Stamp, to sink) {
	if len(b) == 0 {
		return
	}
	a.sync(seq)
	ahead := seqDiff(seq, a.next)
	if ahead > maxWindow {
		return // no TCP sends that far ahead
	}
	if ahead > 0 {
		a.keep(seq, b, at)
		for a.held > a.limit {
			a.skip(to)
		}
		return
	}
	a.deliver(seq, b, at, to)
	a.drain(to)
}

// deliver hands over the part of b that is new. The segment must not begin behind a hole.
func (a *assembler) deliver(seq uint32, b []byte, at Stamp, to sink) {
	old := seqDiff(a.next, seq)
	if old < 0 || old >= len(b) { // below 0: exactly 2^31 away, neither old nor new
		return
	}
	b = b[old:]
	a.next += uint32(len(b))
	to.octets(b, at)
}

// keep stores a copy of b in sequence order. Of two segments with the same number the longer
// matters, and deliver sorts that out; an exact duplicate is not kept.
func (a *assembler) keep(seq uint32, b []byte, at Stamp) {
	i, found := slices.BinarySearchFunc(a.early, seq, func(e earlyData, s uint32) int {
		return seqDiff(e.seq, s)
	})
	if found && len(a.early[i].b) >= len(b) {
		return
	}
	a.early = slices.Insert(a.early, i, earlyData{seq, slices.Clone(b), at})
	a.held += len(b) + earlyCost
}

// drain delivers early data that has become contiguous.
func (a *assembler) drain(to sink) {
	n := 0
	for n < len(a.early) && seqDiff(a.early[n].seq, a.next) <= 0 {
		e := a.early[n]
		n++
		a.held -= len(e.b) + earlyCost
		a.deliver(e.seq, e.b, e.at, to)
	}
	a.early = slices.Delete(a.early, 0, n)
}

// skip gives up the hole in front of the earliest early data.
func (a *assembler) skip(to sink) {
	if len(a.early) == 0 {
		return
	}
	e := a.early[0]
	if n := seqDiff(e.seq, a.next); n > 0 {
		a.next = e.seq
		to.hole(n, e.at)
	}
	a.drain(to)
}

// missing reports n octets behind those pushed last that were on the wire but not captured.
func (a *assembler) missing(n int, at Stamp, to sink) {
	if n <= 0 || len(a.early) > 0 {
		return // behind a hole already: skip will report it
	}
	a.next += uint32(n)
	to.hole(n, at)
}

// finish delivers everything that is left, holes included.
func (a *assembler) finish(to sink) {
	for len(a.early) > 0 {
		a.skip(to)
	}
}
