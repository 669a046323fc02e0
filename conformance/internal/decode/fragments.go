package decode

import (
	"bytes"
	"net/netip"
	"slices"
	"time"

	"github.com/stag-rdma/stag/internal/list"
)

// fragments puts IP datagrams together (RFC 791 Section 3.2, RFC 8200 Section 4.5). A datagram that is not whole in the
// end, or of which two fragments overlap, is never seen: then octets of its TCP connection are missing, as if the packet
// were not in the capture. Captured twice is no overlap.
type fragments struct {
	open  map[datagram]*partial
	order list.List[partial] // the oldest first
	held  int                // octets, with earlyCost for each datagram and each fragment
	whole []byte             // the last that was put together, which is lent
}

// datagram is what all fragments of one have in common. IPv6 has the protocol in the first one only.
type datagram struct {
	src, dst netip.Addr
	id       uint32
	proto    int
}

type partial struct {
	key   datagram
	since time.Time
	node  list.Node[partial]
	parts []fragment // in the order of their offsets
	have  int        // octets of parts
	total int        // -1: the last fragment was not seen
	proto int
	bad   bool // two overlap, or do not agree about the length
}

type fragment struct {
	at int
	b  []byte
}

const (
	maxFragments = 4 << 20 // octets held; the datagram that was begun first goes first
	// fragmentLife is when an identification may come again for another datagram: RFC 8200 Section 4.5, RFC 1122 Section
	// 3.3.2.
	fragmentLife = time.Minute
	maxDatagram  = 1 << 16
)

// add takes a copy of the fragment b at offset at; more: others follow it. It returns the datagram that is whole now, and
// its protocol, or nil.
func (f *fragments) add(key datagram, pkt *Packet, proto, at int, more bool, b []byte) ([]byte, int) {
	if f.open == nil {
		f.open = make(map[datagram]*partial)
	}
	d := f.open[key]
	if d != nil && pkt.Time.Sub(d.since) > fragmentLife {
		f.drop(d)
		d = nil
	}
	if d == nil {
		d = &partial{key: key, since: pkt.Time, total: -1}
		f.open[key] = d
		f.order.Push(&d.node, d)
		f.held += earlyCost
	}
	if at == 0 {
		d.proto = proto
	}
	end := at + len(b)
	i, found := slices.BinarySearchFunc(d.parts, at, func(p fragment, at int) int { return p.at - at })
	if found && bytes.Equal(d.parts[i].b, b) {
		return nil, 0
	}
	switch {
	case len(b) == 0, more && len(b)%8 != 0, end > maxDatagram, d.total >= 0 && (!more || end > d.total), found,
		i > 0 && d.parts[i-1].at+len(d.parts[i-1].b) > at, i < len(d.parts) && (end > d.parts[i].at || !more):
		d.bad = true
	}
	if d.bad { // kept without its octets, so that what follows does not make another of it
		f.held -= d.have
		for i := range d.parts {
			d.have, d.parts[i].b = 0, nil
		}
		return nil, 0
	}
	d.parts = slices.Insert(d.parts, i, fragment{at, bytes.Clone(b)})
	d.have += len(b)
	f.held += len(b) + earlyCost
	if !more {
		d.total = end
	}
	if d.have == d.total {
		f.whole = f.whole[:0]
		for _, p := range d.parts {
			f.whole = append(f.whole, p.b...)
		}
		f.drop(d)
		return f.whole, d.proto
	}
	for f.held > maxFragments {
		f.drop(f.order.First())
	}
	return nil, 0
}

// drop forgets a datagram.
func (f *fragments) drop(d *partial) {
	f.held -= d.have + earlyCost*(1+len(d.parts))
	d.node.Leave()
	delete(f.open, d.key)
}
