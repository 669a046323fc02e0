package stream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"github.com/stag-rdma/stag/internal/reading"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// inlet is a Client as its reading role and its link see it. It belongs to the holder of the role.
type inlet Client

const (
	// stageSize is what is read at once while marks and short records are due.
	stageSize = 16 << 10
	// lookSize is how much of a record is looked at to find the result that has a place. Choice: a READ of NFSv3 has its
	// data after 128 octets.
	lookSize = 256
	// shortRead is what is read of the next record, when it may be long: what is read further has to be copied.
	shortRead = MarkSize + lookSize
	// directMin is the least that is read straight to where it belongs.
	directMin = 2 << 10
	// sinkMin is the smallest sink that results are read to. What is smaller comes with its record in one read.
	sinkMin = 16 << 10
	// growStep is the most memory that a record takes ahead of its octets, unless a call allows as much.
	growStep = 64 << 10
)

// intake joins the fragments of records (RFC 5531 Section 11), and puts the result of a call into its sink on the way: an
// item, the octets at to end of its record, which the record in rec then lacks.
type intake struct {
	stage  *memory.Buffer // nil between two reads: an idle connection holds none
	staged int            // octets in it
	place  []byte         // where Room has let octets go instead
	vec    [2][]byte

	mark  [MarkSize]byte // of the current fragment
	have  int            // octets of mark
	left  int            // missing octets of the fragment
	last  bool           // the fragment ends the record
	empty int            // fragments without octets

	size   int // octets of the record that have been announced
	got    int // that have come
	most   int // for which a call waits
	looked bool
	skip   bool           // the record is too large: only what says which it is is kept
	rec    *memory.Buffer // what has come, without the item
	n      int            // octets in it
	at     int
	end    int // 0: there is no item

	// mu is held while octets go to the sink. Then who owns that has to wait, if he wants to leave.
	mu    sync.Mutex
	holds bool    // mu is, from Room to Got
	of    *waiter // whose sink it is; nil: there is no item, or it is in rec after all
}

// Room implements reading.Source.
func (s *inlet) Room(held bool) (flat []byte, places [][]byte) {
	in := &s.in
	in.place = nil
	if in.have == MarkSize && in.looked && !in.skip && in.left >= directMin {
		in.place = in.target(held)
	}
	if in.place != nil && held {
		return in.place, nil
	}
	if in.stage == nil {
		in.stage = memory.Shared.Get(stageSize)
	}
	flat = in.stage.Data[:stageSize]
	if s.long.Load() > 0 && !held {
		n := shortRead
		if in.have == MarkSize && in.looked {
			n += in.left
		}
		flat = flat[:min(n, stageSize)]
	}
	if in.place == nil {
		return flat, nil
	}
	in.vec = [2][]byte{in.place, flat}
	return nil, in.vec[:]
}

// target returns where the next octets of the fragment go to, nil if there are too few.
func (in *intake) target(held bool) []byte {
	if in.end > in.got {
		if held { // nobody could take it away from one who waits in a read
			return nil
		}
		in.mu.Lock()
		if in.of != nil {
			if p := in.of.sink[in.got-in.at : in.end-in.at]; len(p) >= directMin {
				in.holds = true
				return p[:min(len(p), in.left)]
			}
			in.mu.Unlock()
			return nil
		}
		in.mu.Unlock()
	}
	in.grow()
	if p := in.rec.Data[in.n:]; len(p) >= directMin {
		return p[:min(len(p), in.left)]
	}
	return nil
}

// Got implements reading.Source.
func (s *inlet) Got(n int) {
	in := &s.in
	k := min(n, len(in.place))
	in.staged = n - k
	if k > 0 {
		in.took(k)
	}
	in.place, in.vec = nil, [2][]byte{}
	if in.holds {
		in.holds = false
		in.mu.Unlock()
	}
	if n == 0 && in.stage != nil {
		in.stage.Release()
		in.stage = nil
	}
}

// took counts octets of the record that are in their place. The caller holds mu if that is a sink.
func (in *intake) took(k int) {
	if in.of == nil || in.got >= in.end {
		in.n += k
	}
	in.got += k
	in.left -= k
}

// Before implements reading.Owner.
func (s *inlet) Before(bool) error {
	if s.over.Load() {
		return (*Client)(s).Err()
	}
	return nil
}

// After implements reading.Owner.
func (s *inlet) After(n int, err error) (_ int, failed error) {
	c := (*Client)(s)
	defer func() { // of a binding, or the connection
		if v := recover(); v != nil {
			c.ctr.Panics.Add(1)
			failed = panicked(v)
			c.fail(failed)
		}
	}()
	if err == nil && n > 0 {
		err = c.parse()
	}
	if err == nil || errors.Is(err, reading.ErrInterrupted) {
		return n, err
	}
	in := &c.in
	switch {
	case errors.Is(err, io.EOF) && (in.have > 0 || in.size > 0):
		err = io.ErrUnexpectedEOF
	case errors.Is(err, io.EOF) && c.Received() == 0:
		err = fmt.Errorf("the server has closed the connection without a word (it speaks RDMA alone on this port, or has waited too long for the first call): %w", err)
	}
	c.fail(asRead(c.conn, err))
	return 0, err
}

// asRead returns the error of a link as that of a Read of conn.
func asRead(conn net.Conn, err error) error {
	if _, bare := errors.AsType[*os.SyscallError](err); bare {
		if _, is := errors.AsType[*net.OpError](err); !is {
			return &net.OpError{Op: "read", Net: conn.LocalAddr().Network(), Source: conn.LocalAddr(), Addr: conn.RemoteAddr(), Err: err}
		}
	}
	return err
}

// Blocked implements reading.Owner: nothing stands against input.
func (s *inlet) Blocked() bool { return false }

// Ended and Err implement reading.Owner.
func (s *inlet) Ended() bool { return s.over.Load() }
func (s *inlet) Err() error  { return (*Client)(s).Err() }

// Abort implements reading.Owner.
func (s *inlet) Abort([]byte) { (*Client)(s).fail(panicked("in a context")) }

// parse takes what is staged, and delivers the records that are complete.
func (c *Client) parse() error {
	in := &c.in
	var p []byte
	if in.stage != nil {
		p = in.stage.Data[:in.staged]
	}
	for {
		if in.have == MarkSize && in.left == 0 {
			in.have = 0
			if in.last {
				if err := c.whole(); err != nil {
					return err
				}
			}
		}
		if len(p) == 0 {
			break
		}
		if in.have < MarkSize {
			k := copy(in.mark[in.have:], p)
			p = p[k:]
			if in.have += k; in.have == MarkSize {
				if err := c.fragment(); err != nil {
					return err
				}
			}
			continue
		}
		p = p[c.take(p):]
	}
	if in.stage != nil {
		in.stage.Release()
		in.stage = nil
	}
	return nil
}

// fragment begins the one whose mark has come.
func (c *Client) fragment() error {
	in := &c.in
	w := binary.BigEndian.Uint32(in.mark[:])
	in.left, in.last = int(w&xdr.MaxFragment), w>>31 == 1
	if in.left == 0 && !in.last {
		in.empty++
	}
	in.size += in.left
	in.skip = in.skip || in.size > c.cfg.MaxPayload
	if in.size > maxSkipped || in.empty > maxEmpty {
		return c.tooLarge(xdr.ErrRange)
	}
	return nil
}

// tooLarge is the error of a record that is not stepped over.
func (c *Client) tooLarge(err error) error {
	return fmt.Errorf("a reply of %d octets or more, and Config.MaxPayload is %d: %w", c.in.size, c.cfg.MaxPayload, err)
}

// take takes octets of the fragment and returns how many.
func (c *Client) take(p []byte) int {
	in := &c.in
	p = p[:min(len(p), in.left)]
	if in.skip {
		if in.inline(); in.n < HeadSize {
			in.grow()
			in.n += copy(in.rec.Data[in.n:HeadSize], p)
		}
		in.got += len(p)
		in.left -= len(p)
		return len(p)
	}
	switch {
	case !in.looked:
		p = p[:min(len(p), lookSize-in.got)]
	case in.got < in.end:
		in.mu.Lock()
		if in.of != nil {
			k := copy(in.of.sink[in.got-in.at:in.end-in.at], p)
			in.took(k)
			in.mu.Unlock()
			return k
		}
		in.mu.Unlock()
	}
	in.grow()
	k := copy(in.rec.Data[in.n:], p)
	in.took(k)
	if !in.looked && in.got == lookSize {
		c.look()
	}
	return k
}

// grow makes room in rec for at least one more octet, and as a rule for what has been announced.
func (in *intake) grow() {
	switch {
	case in.rec == nil:
		in.rec = memory.Shared.Get(smallBuffer)
	case in.n == len(in.rec.Data):
		b := memory.Shared.Get(max(in.n+1, min(in.n+in.size-in.got, max(in.most, growStep, 2*in.n))))
		copy(b.Data, in.rec.Data[:in.n])
		in.rec.Release()
		in.rec = b
	}
}

// look finds out, from the beginning of a record, whose reply it is, and whether that has a place for its result.
func (c *Client) look() {
	in := &c.in
	in.looked = true
	head := in.rec.Data[:in.n]
	xid, typ, ok := xdr.PeekXID(head)
	if !ok || typ != xdr.MsgReply {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	c.mu.Lock()
	w := c.pending[xid]
	if w != nil {
		in.most = min(w.most, c.cfg.MaxPayload)
	}
	placed := w != nil && w.sink != nil
	c.mu.Unlock()
	if !placed {
		return // w may be another call's by now
	}
	// Its call cannot leave: that has to withdraw the sink first, and waits for mu.
	d := xdr.NewDecoder(head)
	var h xdr.ReplyHeader
	if h.Parse(&d) != nil || h.Err() != nil {
		return
	}
	pos, n, ok := c.cfg.Binding.FindResult(w.prog, w.vers, w.proc, d.Rest())
	if at := d.Offset() + pos; ok && n >= sinkMin && n <= len(w.sink) && at <= in.n {
		in.of, in.at, in.end = w, at, at+n
		copy(w.sink, head[at:])
		in.n = at
	}
}

// withdraw takes the sink of w away, which has not been filled and is not filled any more.
func (in *intake) withdraw(w *waiter) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.of == w {
		in.backInline()
	}
}

// inline puts the item into the record after all, if it is not there.
func (in *intake) inline() {
	if in.end > 0 {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.backInline()
	}
}

// backInline is inline for who holds mu.
func (in *intake) backInline() {
	if in.of == nil {
		return
	}
	have := min(in.got, in.end) - in.at
	b := memory.Shared.Get(in.n + have)
	copy(b.Data, in.rec.Data[:in.at])
	copy(b.Data[in.at:], in.of.sink[:have])
	copy(b.Data[in.at+have:], in.rec.Data[in.at:in.n])
	in.rec.Release()
	in.rec, in.n, in.of = b, in.n+have, nil
}

// whole delivers the record that is complete.
func (c *Client) whole() error {
	in := &c.in
	if in.rec == nil {
		in.grow() // a record without octets is none of ours, but it is one
	}
	if in.skip {
		xid, typ, ok := xdr.PeekXID(in.rec.Data[:in.n])
		if !ok || typ != xdr.MsgReply {
			return c.tooLarge(xdr.ErrRange)
		}
		c.ctr.Dropped.Add(1)
		c.refuse(xid, &rpc.RoomError{Room: c.cfg.MaxPayload, Result: in.size})
		in.drop()
		return nil
	}
	if in.got < in.end+xdr.Pad(in.end-in.at) {
		in.inline() // the item ends early: what is left of it is of no use, but may be told
	}
	c.ctr.Inline.Add(uint64(in.got))
	in.mu.Lock()
	a := arrived{buf: in.rec, msg: in.rec.Data[:in.n], of: in.of, at: in.at, item: in.end - in.at}
	in.rec, in.of = nil, nil
	in.mu.Unlock()
	in.drop()
	c.deliver(a)
	return nil
}

// drop forgets the record.
func (in *intake) drop() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.rec != nil {
		in.rec.Release()
	}
	in.rec, in.of, in.n, in.got, in.size, in.most, in.at, in.end, in.empty = nil, nil, 0, 0, 0, 0, 0, 0, 0
	in.looked, in.skip = false, false
}
