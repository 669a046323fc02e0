package rdmap

import (
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/region"
)

const (
	// directMin is the payload from which on an FPDU is read straight into its place.
	directMin = 16 << 10
	// directLong is how many octets of that make a read long enough.
	directLong = 128 << 10
	// shortRead is what a read takes, with nothing staged and a Response of directLong octets
	// to come: the first header tells the next read where all behind it belongs. Short
	// messages that come first are still read whole.
	shortRead = 4 << 10
	// fpduHead is the length of what stands before the payload of a tagged segment.
	fpduHead = mpa.HeaderLen + ddp.TaggedLen
)

// direct is a read that brings the payloads of a Read Response straight into their place:
// the rest of the one that has begun, and those to be expected behind it, since the length
// of the message is known. All else goes where a read into the staging would bring it, so
// that the staging has holes where these payloads would be; of what turns out not to be as
// expected the holes are filled, and nothing has happened.
//
// What is read so is placed before its CRC is checked: the sink of a Read that is not
// complete is nobody's to look at. Writes are not: how long they are only
// their last segment tells.
type direct struct {
	on   bool
	view region.View // the sink, of all that is left of the message
	head ddp.Segment // of the first FPDU
	have int         // octets of its payload that were staged before
	n    int         // payload octets of an FPDU; the last one of the message may have less
	to   int         // octets of view that the read was to bring
	more bool        // another long Read Response is to follow
	vec  [][]byte
}

// size returns the payload octets of the FPDU whose payload belongs at off of the view.
func (d *direct) size(off int) int { return min(d.n, len(d.view.Bytes())-off) }

// aim returns where the octets of the next read are to go, nil if that is nothing special.
// Afterwards missed or landed has to be called.
func (c *Conn) aim(st *staging) [][]byte {
	d, r := &c.direct, c.rcv
	head, ulpdu, ok := c.df.Peek(st.pending())
	d.n, d.have = ulpdu-ddp.TaggedLen, len(head)-ddp.TaggedLen
	if !ok || d.n <= 0 || d.have < 0 || d.have == d.n || r.off.len() > 0 {
		return nil
	}
	limit := len(st.b)
	if st.r > 0 && d.have < directMin/4 {
		st.r, st.w = 0, copy(st.b, st.pending())
	} else if st.r > 0 { // everything is laid out from the front on; what is pending stays for now
		limit = st.r
	}
	d.head.Parse(st.pending()[mpa.HeaderLen:])
	if limit < 2*mpa.FPDULen(ulpdu) || !r.aim(d) {
		return nil
	}
	return d.vectors(st.b[:limit])
}

// aim finds the sink, if d.head begins a segment of a Read Response that may be placed.
func (r *receiver) aim(d *direct) bool {
	s := &d.head
	op, v := r.opcode(s)
	if v != vioNone || s.DV != ddp.Version || op != OpReadResponse || r.checkResponse(s, d.n) != vioNone {
		return false
	}
	d.more = r.up.behind() >= directLong
	if d.n < directMin && !(s.Last && d.more) { // that one is read by itself, for the next to be direct
		return false
	}
	n := uint32(d.n)
	if rd, _ := r.up.head(); !s.Last {
		n = uint32(uint64(rd.size) - (s.TO - rd.sinkTO))
	}
	view, err := r.table.Lookup(region.STag(s.STag), s.TO, n, region.ReadSink)
	if err != nil {
		return false
	}
	if view.Guarded() || view.WrittenThrough() {
		view.Release()
		return false
	}
	d.view = view
	return true
}

// vectors lays the read out in b, where the first FPDU begins at the front.
func (d *direct) vectors(b []byte) [][]byte {
	mem := d.view.Bytes()
	d.to = d.n
	d.vec = append(d.vec[:0], mem[d.have:d.n])
	at := fpduHead + d.n
	gap := mpa.TrailerLen(ddp.TaggedLen+d.n) + fpduHead
	for d.to < len(mem) {
		n := d.size(d.to)
		if at+gap+n+mpa.TrailerLen(ddp.TaggedLen+n) > len(b) {
			break
		}
		d.vec = append(d.vec, b[at:at+gap], mem[d.to:d.to+n])
		d.to += n
		at += gap + n
	}
	if d.to >= directLong || d.to < len(mem) || d.more {
		b = b[:min(at+gap, len(b))] // the next payload is for the next read
	}
	d.vec = append(d.vec, b[at:])
	return d.vec
}

// missed says that nothing was read.
func (d *direct) missed() { d.view.Release() }

// landed says that n octets were read, n > 0. The staging is then as after any other read,
// but for the holes, which land sees to.
func (c *Conn) landed(st *staging, n int) {
	d := &c.direct
	staged := st.b[st.r:st.w]
	if n < d.n-d.have+mpa.TrailerLen(ddp.TaggedLen+d.n) {
		copy(st.b, staged)
		copy(st.b[len(staged):], d.view.Bytes()[d.have:min(d.have+n, d.n)])
		d.view.Release()
	} else {
		copy(d.view.Bytes(), staged[fpduHead:])
		copy(st.b, staged[:fpduHead])
		d.on = true
	}
	st.r, st.w = 0, len(staged)+n
}

// land delivers the FPDUs whose payloads lie in their place already, and fills the other
// holes. The role may be lost when the last one has completed the Read: then d, whose view
// has been released, is somebody else's.
func (c *Conn) land(st *staging) error {
	d, r := &c.direct, c.rcv
	d.on = false
	mem := d.view.Bytes()
	for off := 0; off < d.to; {
		n := d.size(off)
		p := st.pending()
		size := mpa.FPDULen(ddp.TaggedLen + n)
		if len(p) < size || off > 0 && !d.expected(p, off) {
			d.fill(p, off)
			d.view.Release()
			return nil
		}
		var sum uint32
		if c.df.CRC {
			sum = mpa.UpdateCRC(mpa.UpdateCRC(0, p[:fpduHead]), mem[off:off+n])
		}
		if err := c.df.Finish(sum, p[fpduHead+n:size]); err != nil {
			d.view.Release()
			return c.mute(protocolError(err, nil))
		}
		if off += n; off == d.to {
			d.view.Release() // before the Read is complete
		}
		r.inPlace = true
		ev, err := r.input(p[mpa.HeaderLen : fpduHead+n])
		r.inPlace = false
		if err != nil {
			d.view.Release()
			return c.mute(err)
		}
		st.r += size
		c.large = max(c.large, size)
		if err := c.event(st, ev); err != nil {
			return err
		}
	}
	return nil
}

// expected reports whether p begins with the FPDU whose payload was to go to off.
func (d *direct) expected(p []byte, off int) bool {
	s, n := d.head, d.size(off)
	s.TO += uint64(off)
	s.Last = off+n == len(d.view.Bytes())
	var want [fpduHead]byte
	s.Append(mpa.AppendHeader(want[:0], ddp.TaggedLen+n))
	return [fpduHead]byte(p) == want
}

// fill copies what has been read of the payloads from off on to where they would be in p,
// whose first FPDU is the one that belongs there.
func (d *direct) fill(p []byte, off int) {
	for mem := d.view.Bytes(); off < d.to && len(p) > fpduHead; {
		n := d.size(off)
		copy(p[fpduHead:], mem[off:off+n])
		p = p[min(mpa.FPDULen(ddp.TaggedLen+n), len(p)):]
		off += n
	}
}
