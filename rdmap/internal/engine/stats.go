package engine

import (
	"math/bits"
	"sync/atomic"

	"github.com/stag-rdma/stag/rdmap/verbs"
)

// Sends returns the Sends and Immediates of n.
func Sends(n *verbs.OpCounts) (sum uint64) {
	for op, k := range n {
		if isMessage(verbs.Opcode(op)) {
			sum += k
		}
	}
	return sum
}

// Traffic counts one direction.
type Traffic struct {
	FPDUs, Octets, WriteOctets, ReadOctets uint64
	Messages                               verbs.OpCounts
	seen                                   uint32 // opcodes counted since they were last passed on
}

// message counts n messages.
func (t *Traffic) message(op verbs.Opcode, n int) {
	t.Messages[op] += uint64(n)
	t.seen |= 1 << op
}

// Add adds d to t and clears d.
func (t *Traffic) Add(d *Traffic) {
	t.FPDUs += d.FPDUs
	t.Octets += d.Octets
	t.WriteOctets += d.WriteOctets
	t.ReadOctets += d.ReadOctets
	d.FPDUs, d.Octets, d.WriteOctets, d.ReadOctets = 0, 0, 0, 0
	for ; d.seen != 0; d.seen &= d.seen - 1 { // one or two of 32, once for each batch
		op := bits.TrailingZeros32(d.seen)
		t.Messages[op] += d.Messages[op]
		d.Messages[op] = 0
	}
}

// Published is what the holder of the reading role last told others.
type Published struct {
	FPDUs, Octets, WriteOctets, ReadOctets atomic.Uint64
	Messages                               [len(verbs.OpCounts{})]atomic.Uint64
}

// Set publishes t.
func (p *Published) Set(t *Traffic) {
	p.FPDUs.Store(t.FPDUs)
	p.Octets.Store(t.Octets)
	p.WriteOctets.Store(t.WriteOctets)
	p.ReadOctets.Store(t.ReadOctets)
	for ; t.seen != 0; t.seen &= t.seen - 1 {
		op := bits.TrailingZeros32(t.seen)
		p.Messages[op].Store(t.Messages[op])
	}
}
