package rdmap

import (
	"math/bits"
	"sync/atomic"

	"github.com/stag-rdma/stag/rdmap/verbs"
)

// sends returns the Sends and Immediates of n.
func sends(n *verbs.OpCounts) (sum uint64) {
	for op, k := range n {
		if isMessage(verbs.Opcode(op)) {
			sum += k
		}
	}
	return sum
}

// traffic counts one direction.
type traffic struct {
	fpdus, octets, writeOctets, readOctets uint64
	messages                               verbs.OpCounts
	seen                                   uint32 // opcodes counted since they were last passed on
}

// message counts n messages.
func (t *traffic) message(op verbs.Opcode, n int) {
	t.messages[op] += uint64(n)
	t.seen |= 1 << op
}

// add adds d to t and clears d.
func (t *traffic) add(d *traffic) {
	t.fpdus += d.fpdus
	t.octets += d.octets
	t.writeOctets += d.writeOctets
	t.readOctets += d.readOctets
	d.fpdus, d.octets, d.writeOctets, d.readOctets = 0, 0, 0, 0
	for ; d.seen != 0; d.seen &= d.seen - 1 {
		op := bits.TrailingZeros32(d.seen)
		t.messages[op] += d.messages[op]
		d.messages[op] = 0
	}
}

// published is what the holder of the reading role last told others.
type published struct {
	fpdus, octets, writeOctets, readOctets atomic.Uint64
	messages                               [len(verbs.OpCounts{})]atomic.Uint64
}

func (p *published) set(t *traffic) {
	p.fpdus.Store(t.fpdus)
	p.octets.Store(t.octets)
	p.writeOctets.Store(t.writeOctets)
	p.readOctets.Store(t.readOctets)
	for ; t.seen != 0; t.seen &= t.seen - 1 {
		op := bits.TrailingZeros32(t.seen)
		p.messages[op].Store(t.messages[op])
	}
}
