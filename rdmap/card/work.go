package card

import (
	"errors"
	"time"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// sending is the sending half. Conn.mu guards it.
type sending struct {
	pending []work // waits for room in the queue, for memory, or for Reads
	posted  []work // in the order of posting; the first has the id first, the next one more, and so on
	first   uint64
	late    []work // has come back with an error: completes when the connection is over, when it is known why
	wrs     []wr   // for pump
	ord     int
	reading int       // Reads posted
	flushed bool      // work comes back because the connection has ended
	moved   time.Time // when something came or went
}

// receiving is the receiving half. Conn.mu guards it.
type receiving struct {
	slots    []slot // by the low bits of the receive's id
	free     []int  // of slots, not posted
	receives int    // posted
}

// work is a work request and what it holds of the card's memory.
type work struct {
	verbs.WR
	n     int  // octets
	back  bool // from the card
	bad   bool // with an error
	alive bool // a keepalive, of which nobody knows

	slot  slot          // for Head, or for all of it
	reg   *registration // of Body, or of the sink
	view  region.View   // of a Read
	viewd bool
}

// recvBit marks the ids of receives.
const recvBit = 1 << 63

func (c *Conn) busy() bool { return len(c.posted)+len(c.pending) > 0 }

func (c *Conn) setORD(n int) {
	c.mu.Lock()
	c.ord = n
	c.mu.Unlock()
}

// LimitORD implements rdmap.Device.
func (c *Conn) LimitORD(n int) {
	c.mu.Lock()
	c.ord = min(c.ord, n)
	c.mu.Unlock()
}

// PostRecv implements rdmap.Device. Without memory the connection ends: the peer has been promised, or will be, that it
// may send.
func (c *Conn) PostRecv(n int) {
	var err error
	c.mu.Lock()
	for ; n > 0 && err == nil && c.qp != nil && c.err == nil; n-- {
		err = c.postRecv()
	}
	c.mu.Unlock()
	if err != nil {
		c.End(&verbs.LocalError{Err: err}, false)
	}
}

func (c *Conn) postRecv() error {
	var i int
	if k := len(c.free); k > 0 {
		i = c.free[k-1]
		c.free = c.free[:k-1]
	} else {
		s, err := c.dev.slotOf(&c.cfg.receive, c.dc.RecvSize, nil)
		if err != nil {
			return err
		}
		i = len(c.slots)
		c.slots = append(c.slots, s)
	}
	if err := c.qp.recv(recvBit|uint64(i), c.slots[i], c.dc.RecvSize); err != nil {
		c.free = append(c.free, i)
		return err
	}
	c.receives++
	return nil
}

// Post implements rdmap.Device.
func (c *Conn) Post(wrs []verbs.WR) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	if c.state != stateUp {
		return verbs.ErrNoHandshake
	}
	if !c.busy() {
		c.moved = time.Now() // what is posted now has its time
	}
	for i := range wrs {
		w := work{WR: wrs[i], n: len(wrs[i].Head) + len(wrs[i].Body)}
		if w.Op == verbs.OpReadRequest {
			w.n = int(w.Len)
		}
		c.pending = append(c.pending, w)
	}
	c.pump()
	// What could not be posted yet is lent no longer than this, as far as Post copies it.
	for i := max(len(c.pending)-len(wrs), 0); i < len(c.pending); i++ {
		w := &c.pending[i]
		if w.n <= verbs.CopyLimit && w.Op != verbs.OpReadRequest {
			w.Body = append(append(make([]byte, 0, w.n), w.Head...), w.Body...)
			w.Head = nil
		} else if len(w.Head) > 0 {
			w.Head = append([]byte(nil), w.Head...)
		}
	}
	return nil
}

// keepalive asks for a sign of life. On RoCE an empty RDMA Write is acknowledged. On iWARP it would be complete when it has
// gone to TCP: there it is an empty Read. Neither reaches the upper layer of the peer, and an empty one needs no name of
// memory (RFC 5040 Section 5.2; InfiniBand 9.4.3). The caller holds mu.
func (c *Conn) keepalive() {
	op := verbs.OpWrite
	if c.caps.iwarp && c.ord > 0 {
		op = verbs.OpReadRequest
	}
	c.pending = append(c.pending, work{WR: verbs.WR{Op: op}, alive: true})
	c.pump()
}

// pump posts what there is room for. The caller holds mu.
func (c *Conn) pump() {
	c.wrs = c.wrs[:0]
	k := 0
	var err error
	for k < len(c.pending) && len(c.posted)+k < c.caps.sends {
		var r wr
		var ok bool
		if r, ok, err = c.prepare(&c.pending[k]); !ok {
			break
		}
		r.id = c.first + uint64(len(c.posted)+k)
		c.wrs = append(c.wrs, r)
		k++
	}
	if k > 0 {
		c.posted = append(c.posted, c.pending[:k]...)
		n := copy(c.pending, c.pending[k:])
		clear(c.pending[n:])
		c.pending = c.pending[:n]
		if e := c.qp.post(c.wrs); e != nil {
			err = e
			if p, ok := errors.AsType[*postError](e); ok { // the rest does not come back from the card
				first := len(c.posted) - k + p.posted
				c.late = append(c.late, c.posted[first:]...)
				c.posted = c.posted[:first]
			}
		}
	}
	if err != nil {
		go c.End(err, false) // mu is held
	}
}

// prepare gives w its memory. ok is false if it has to wait, or, with an error, if the connection has to end.
func (c *Conn) prepare(w *work) (r wr, ok bool, err error) {
	r = wr{flags: flagSignaled, rkey: uint32(w.STag), raddr: w.TO}
	switch w.Op {
	case verbs.OpSend, verbs.OpSendSE:
		r.op = opSend
	case verbs.OpSendInvalidate, verbs.OpSendSEInvalidate:
		r.op = opSendInvalidate
	case verbs.OpWrite:
		r.op = opWrite
	case verbs.OpReadRequest:
		r.op = opRead
		if c.reading >= c.ord {
			return r, false, nil
		}
		if w.n == 0 && c.caps.iwarp && len(c.slots) > 0 { // siw wants a sink all the same
			r.lkey[0], r.addr[0], r.pieces = c.slots[0].in.reg.lkey, addrOf(c.slots[0].mem), 1
		}
		if w.n > 0 && !w.viewd {
			if w.view, err = c.dc.Table.Lookup(w.Sink, w.SinkTO, w.Len, region.ReadSink); err != nil {
				return r, false, &verbs.LocalError{Err: verbs.ErrSinkLost}
			}
			w.viewd = true
		}
	default:
		return r, false, &verbs.LocalError{Err: verbs.ErrNoExtension}
	}
	if w.Op.Solicited() {
		r.flags |= flagSolicited
	}
	add := func(lkey uint32, mem []byte) {
		r.lkey[r.pieces], r.addr[r.pieces], r.len[r.pieces] = lkey, addrOf(mem), uint32(len(mem))
		r.pieces++
	}
	read := w.Op == verbs.OpReadRequest
	body := w.Body
	if read {
		body = w.view.Bytes()
	}
	// The sink of a Read is named on the wire by iWARP, with the right to write: it is a registration of its own.
	bounce := w.n <= bounceLimit && !(read && c.caps.iwarp)
	if w.n > 0 && (bounce || len(w.Head) > 0) && w.slot.in == nil {
		size := len(w.Head)
		if bounce {
			size = w.n
		}
		if w.slot, err = c.dev.slotOf(&c.cfg.copied, size, c); err != nil {
			return r, false, waitsFor(err)
		}
	}
	if w.n > 0 && !bounce && w.reg == nil {
		access := 0
		if read {
			if access = localWrite; c.caps.iwarp {
				access |= remoteWrite
			}
		}
		if w.reg, err = c.dev.pin(body, access, c); err != nil {
			return r, false, waitsFor(err)
		}
	}
	switch {
	case w.n == 0:
	case bounce:
		mem := w.slot.mem[:w.n]
		if !read {
			copy(mem[copy(mem, w.Head):], w.Body)
		}
		add(w.slot.in.reg.lkey, mem)
	default:
		if n := len(w.Head); n > 0 {
			copy(w.slot.mem, w.Head)
			add(w.slot.in.reg.lkey, w.slot.mem[:n])
		}
		add(w.reg.lkey, body)
	}
	if read {
		c.reading++
	}
	return r, true, nil
}

// waitsFor returns nil for memory that comes back when other work is complete, here or elsewhere.
func waitsFor(err error) error {
	if err == ErrMemory { //nolint:errorlint // as it is: wrapped, the memory does not come
		return nil
	}
	return &verbs.LocalError{Err: err}
}

// complete takes one completion. Work completes in the order of posting, as verbs.WR promises: siw hands back a Send
// while a Read before it waits for its Response.
func (c *Conn) complete(got *wc) {
	if got.id&recvBit != 0 {
		c.received(got)
		return
	}
	c.mu.Lock()
	i := got.id - c.first
	if i >= uint64(len(c.posted)) || c.posted[i].back {
		c.mu.Unlock()
		c.End(&verbs.LocalError{Err: errors.New("card: a completion of nothing that was posted")}, false)
		return
	}
	w := &c.posted[i]
	w.back, w.bad = true, got.status != 0
	if w.Op == verbs.OpReadRequest {
		c.reading--
	}
	c.moved = time.Now()
	c.mu.Unlock()
	if got.status != 0 {
		c.failed(got, false)
	}
	for c.completeFirst() {
	}
	c.mu.Lock()
	if len(c.pending) > 0 && (c.err == nil || c.drain) {
		c.pump()
	}
	c.mu.Unlock()
}

// completeFirst completes the work that was posted first, if it is back.
func (c *Conn) completeFirst() bool {
	c.mu.Lock()
	if len(c.posted) == 0 || !c.posted[0].back {
		c.mu.Unlock()
		return false
	}
	w := c.posted[0]
	c.posted[0] = work{}
	c.posted = c.posted[1:]
	c.first++
	if w.bad {
		c.late = append(c.late, w)
		c.mu.Unlock()
		return true
	}
	c.count(&w)
	c.mu.Unlock()
	c.release(&w, true)
	if !w.alive {
		c.dc.Completed(&w.WR, nil)
	}
	return true
}

// count adds a work request that has succeeded to the counters. The caller holds mu.
func (c *Conn) count(w *work) {
	st, n := &c.stats, uint64(w.n)
	if w.alive {
		return
	}
	st.MessagesOut[w.Op]++
	switch w.Op {
	case verbs.OpReadRequest:
		st.ReadsOut++
		st.ReadOctetsIn += n
		st.OctetsIn += n
		return
	case verbs.OpWrite:
		st.WriteOctetsOut += n
	default:
		st.SendsOut++
	}
	st.OctetsOut += n
}

// release gives back what w holds of the card. done: it has succeeded.
func (c *Conn) release(w *work, done bool) {
	if w.reg != nil {
		w.reg.end()
	}
	if w.viewd {
		if done && w.slot.in != nil {
			copy(w.view.Bytes(), w.slot.mem)
		}
		w.view.Release()
	}
	if w.slot.in != nil {
		c.dev.give(w.slot)
	}
	w.reg, w.viewd, w.slot = nil, false, slot{}
}

// received takes the completion of a receive.
func (c *Conn) received(got *wc) {
	i := int(got.id &^ recvBit)
	c.mu.Lock()
	c.receives--
	up := c.err == nil && got.status == 0
	c.moved = time.Now()
	mem := c.slots[i].mem
	m := verbs.Message{Op: verbs.OpSend}
	if got.hasInv != 0 {
		m.Op, m.Invalidated = verbs.OpSendInvalidate, region.STag(got.inv)
	}
	if up {
		c.stats.SendsIn++
		c.stats.OctetsIn += uint64(got.len)
		c.stats.MessagesIn[m.Op]++
	}
	c.mu.Unlock()
	if up {
		m.Data = mem[:got.len]
		c.dc.Message(&m)
	}
	c.mu.Lock()
	c.free = append(c.free, i)
	c.mu.Unlock()
	if got.status != 0 {
		c.failed(got, true)
	}
}

// failed ends the connection because of a completion.
func (c *Conn) failed(got *wc, recv bool) {
	err := completionError(got.status, recv)
	if got.status != statusFlushed {
		c.End(err, false)
		return
	}
	c.mu.Lock()
	if c.err == nil && c.parted == nil && !c.flushed {
		c.flushed, c.parted, c.by = true, err, time.Now().Add(partTime)
	}
	c.mu.Unlock()
}

// failAll completes what has not succeeded, in order. up: upcalls are made.
func (c *Conn) failAll(up bool) {
	c.mu.Lock()
	rest := append(append(c.late, c.posted...), c.pending...)
	c.late, c.posted, c.pending = nil, nil, nil
	err := c.err
	c.mu.Unlock()
	for i := range rest {
		w := &rest[i]
		c.release(w, false)
		if up && !w.alive {
			c.dc.Completed(&w.WR, err)
		}
	}
}

// freeSlots gives the receives back.
func (c *Conn) freeSlots() {
	c.mu.Lock()
	list := c.slots
	c.slots, c.free = nil, nil
	c.mu.Unlock()
	for _, s := range list {
		c.dev.give(s)
	}
}
