package decode

import (
	"bytes"
	"slices"
)

// assembler puts the payload octets of one direction of a TCP connection into order. It keeps copies of what
// arrives early, up to a limit, and drops what it has seen (retransmissions, keep-alive probes) after
// comparing it. It has no clock: its owner decides when to give up a hole.
//
// Sequence numbers are compared as signed differences, so streams may pass 2^32.
type assembler struct {
	synced bool   // next is known
	first  uint32 // sequence number of the first octet, if synced is set
	next   uint32 // sequence number of the next octet to deliver
	early  []earlyData
	held   int // octets in early, with earlyCost for each piece
	limit  int // limit of held octets
	seen   history
}

// earlyData is payload that arrived before the octets that precede it.
type earlyData struct {
	seq uint32
	b   []byte
	at  Stamp

	ack     uint32 // what the segment acknowledges, if answers is set
	answers bool
	ahead   bool // it was captured before some octets that it acknowledges
}

// earlyCost is what keeping a piece costs besides its octets, so that pieces of one octet do not cost much
// more than the limit says, in memory or in time to sort them.
const earlyCost = 256

// maxWindow is the largest window of TCP in octets (RFC 7323 Section 2.3).
const maxWindow = 1 << 30

// sink receives octets in order. hole reports that n octets before the next ones are not in the capture, and
// conflict that n octets of b, which begins old octets before the next one, were there before with other contents.
type sink interface {
	octets(b []byte, at Stamp)
	hole(n int, at Stamp)
	conflict(n int, b []byte, old int, at Stamp)
}

// seqDiff returns a-b in sequence space.
func seqDiff(a, b uint32) int { return int(int32(a - b)) }

// sync sets the sequence number of the first octet, from a SYN or what acknowledges it.
func (a *assembler) sync(next uint32) {
	if !a.synced {
		a.synced, a.first, a.next = true, next, next
	}
}

// place says when the payload b of a segment with sequence number seq is due: now if it, or what is left of
// it, comes next; later if octets before it are missing; never if no TCP sends so far ahead. A direction
// whose SYN is not in the capture begins with the first segment seen.
func (a *assembler) place(seq uint32, b []byte) (now, later bool) {
	if len(b) == 0 {
		return false, false
	}
	a.sync(seq)
	ahead := seqDiff(seq, a.next)
	return ahead <= 0, ahead > 0 && ahead <= maxWindow
}

// deliver hands over the part of b that is new, and compares the rest with what was there before. The segment must
// not begin after a hole.
func (a *assembler) deliver(seq uint32, b []byte, at Stamp, to sink) {
	old := seqDiff(a.next, seq)
	if old < 0 { // exactly 2^31 away, neither old nor new
		return
	}
	if n := a.seen.differ(b[:min(old, len(b))], old); n > 0 && len(b) > 1 { // a keep-alive probe has one arbitrary octet
		to.conflict(n, b[:min(old, len(b))], old, at)
	}
	if old >= len(b) {
		return
	}
	b = b[old:]
	a.next += uint32(len(b))
	a.seen.add(b)
	to.octets(b, at)
}

// keep stores a piece, with a copy of its octets, in sequence order. Of two segments with the same number
// the longer one matters, and deliver sees to that; an exact duplicate is not kept.
func (a *assembler) keep(p earlyData) {
	i, found := slices.BinarySearchFunc(a.early, p.seq, func(e earlyData, s uint32) int {
		return seqDiff(e.seq, s)
	})
	if found && bytes.HasPrefix(a.early[i].b, p.b) {
		return
	}
	p.b = slices.Clone(p.b)
	a.early = slices.Insert(a.early, i, p)
	a.held += len(p.b) + earlyCost
}

// ready reports whether the first piece kept need not wait any more for octets before it.
func (a *assembler) ready() bool { return len(a.early) > 0 && seqDiff(a.early[0].seq, a.next) <= 0 }

// gap reports whether octets are missing before the first piece kept.
func (a *assembler) gap() bool { return len(a.early) > 0 && !a.ready() }

// since returns the packet of the kept pieces that was captured first.
func (a *assembler) since() int {
	first := a.early[0].at.Frame
	for _, e := range a.early[1:] {
		first = min(first, e.at.Frame)
	}
	return first
}

// shift delivers the first piece kept, which is ready.
func (a *assembler) shift(to sink) {
	e := a.early[0]
	a.early[0] = earlyData{}
	a.early = a.early[1:]
	a.held -= len(e.b) + earlyCost
	a.deliver(e.seq, e.b, e.at, to)
}

// skip gives up the octets before seq.
func (a *assembler) skip(seq uint32, at Stamp, to sink) {
	n := seqDiff(seq, a.next)
	a.sync(a.next)
	a.next = seq
	a.seen.reset()
	to.hole(n, at)
}

// missing reports n octets after those pushed last that were on the wire but not captured.
func (a *assembler) missing(n int, at Stamp, to sink) {
	if n <= 0 || len(a.early) > 0 {
		return // after a hole already: skip will report it
	}
	a.next += uint32(n)
	a.seen.reset()
	to.hole(n, at)
}
