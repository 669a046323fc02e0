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
	// directMost is how many octets of that one read brings at most, and a payload more.
	directMost = 1 << 20
	// shortRead is what a read takes, with nothing staged and a Response of directLong octets
	// to come: the first header tells the next read where all behind it belongs. Short
	// messages that come first are still read whole.
	shortRead = 4 << 10
	// fpduHead is the length of what stands before the payload of a tagged segment.
	fpduHead = mpa.HeaderLen + ddp.TaggedLen
)

// direct is a read that brings the payloads of a Read Response straight into their place:
// the rest of the one that has begun, and those to be expected behind it, since the length
// of the message is known. What is between and behind them goes to the staging, one piece
// behind the other, so that a read may bring more than the staging would hold. If what comes
// is not as expected, all of it is put where a read into the staging would have brought it,
// and nothing has happened.
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
	got  int         // octets that are there, from the first FPDU on
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
	copy(d.view.Bytes(), st.pending()[fpduHead:]) // the read may store to where that lies
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

// vectors lays the read out, with what is not payload in b behind the first header.
func (d *direct) vectors(b []byte) [][]byte {
	mem := d.view.Bytes()
	d.to = d.n
	d.vec = append(d.vec[:0], mem[d.have:d.n])
	at, last := fpduHead, d.n
	for d.to < min(len(mem), directMost) {
		gap := mpa.TrailerLen(ddp.TaggedLen+last) + fpduHead
		last = d.size(d.to)
		if at+gap+last > len(b) { // of b, land shows the FPDU that begins there
			break
		}
		d.vec = append(d.vec, b[at:at+gap], mem[d.to:d.to+last])
		d.to += last
		at += gap
	}
	end := len(b)
	if d.to >= directLong || d.to < len(mem) || d.more { // the next payload is for the next read
		end = min(at+mpa.TrailerLen(ddp.TaggedLen+last)+fpduHead, end)
	}
	d.vec = append(d.vec, b[at:end])
	return d.vec
}

// missed says that nothing was read.
func (d *direct) missed() { d.view.Release() }

// landed says that n octets were read, n > 0. Nobody is to look at the staging before land.
func (c *Conn) landed(st *staging, n int) {
	staged := st.pending()
	copy(st.b, staged[:fpduHead])
	c.direct.on, c.direct.got = true, len(staged)+n
}

// land delivers the FPDUs whose payloads lie in their place, and lays out all others as a
// read into the staging does: in the staging that it returns. The role may be lost when the
// last one has completed the Read: then d, whose view has been released, is somebody
// else's.
func (c *Conn) land(st *staging) (*staging, error) {
	d, r := &c.direct, c.rcv
	d.on = false
	mem, left := d.view.Bytes(), d.got
	st.r = 0
	for off := 0; off < d.to; {
		n := d.size(off)
		size := mpa.FPDULen(ddp.TaggedLen + n)
		p := st.b[st.r:]
		if left < size || off > 0 && !d.expected(p, off) {
			st = d.fill(st, off, left)
			d.view.Release()
			return st, nil
		}
		trailer := p[fpduHead : fpduHead+size-n-fpduHead]
		var sum uint32
		if c.df.CRC {
			sum = mpa.UpdateCRC(mpa.UpdateCRC(0, p[:fpduHead]), mem[off:off+n])
		}
		if err := c.df.Finish(sum, trailer); err != nil {
			d.view.Release()
			return st, c.mute(protocolError(err, nil))
		}
		off += n
		left -= size
		st.r += size - n
		st.w = st.r
		if off == d.to {
			st.w += left
			d.view.Release() // before the Read is complete
		}
		u := p[mpa.HeaderLen : fpduHead+n] // of the right length, and with a right header
		if r.ddp.Continues(u) {
			r.ddp.Continue(n)
			r.followed(1, n)
			continue
		}
		r.inPlace = true
		ev, err := r.input(u)
		r.inPlace = false
		if err != nil {
			d.view.Release()
			return st, c.mute(err)
		}
		if err := c.event(st, ev); err != nil {
			return st, err
		}
	}
	return st, nil
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

// fill lays out what has been read from off on, n octets whose first FPDU begins at st.r,
// as a read into the staging does.
func (d *direct) fill(st *staging, off, n int) *staging {
	from := st.b[st.r:]
	if st.r+n > len(st.b) {
		big := &staging{b: make([]byte, n)}
		lend(1)
		d.spread(big.b, from, off)
		big.w = n
		st.giveBack()
		return big
	}
	st.w = st.r + n
	d.spread(st.pending(), from, off)
	return st
}

// spread puts the payloads between the headers and trailers that lie in from, which begins
// with the header of the payload at off: all of it fills to, which may begin where from does.
func (d *direct) spread(to, from []byte, off int) {
	if off >= d.to || len(to) <= fpduHead {
		copy(to, from)
		return
	}
	n := d.size(off)
	if end := fpduHead + n; len(to) > end {
		k := mpa.TrailerLen(ddp.TaggedLen + n)
		if len(to) > end+k {
			d.spread(to[end+k:], from[fpduHead+k:], off+n)
		}
		copy(to[end:], from[fpduHead:fpduHead+k])
	}
	copy(to[fpduHead:], d.view.Bytes()[off:off+n])
	copy(to, from[:fpduHead])
}
