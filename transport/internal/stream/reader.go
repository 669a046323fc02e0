package stream

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/transport/internal/admit"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/xdr"
)

const (
	// readAhead is the input that is read at once. Smaller calls are read together, and the rest of a
	// larger one goes straight to its memory.
	readAhead = 16 << 10

	// maxHead is what is looked at before the record gets memory: the header of a call (RFC 5531 Section 9),
	// and all of a small record, since a duplicate is known by the length of its arguments too.
	maxHead = smallRecord

	// maxEmpty limits the fragments without octets of a record. They are legal and useless: without a limit
	// a peer could keep a reader busy with a record that never grows.
	maxEmpty = 16
)

// errStuck ends a connection whose handlers wait for replies of its client, behind a call for which there
// is no memory.
var errStuck = errors.New("transport: a call for which there is no memory stands before the replies that handlers of this connection wait for")

// reader reads the records of a Conn. It belongs to one goroutine at a time. That runs a
// short call itself; if the call takes too long all the same, the watchdog gives the reader to another.
type reader struct {
	c     *Conn
	br    *bufio.Reader
	armed bool       // a read deadline is set
	over  chan error // the end of the stream

	here  atomic.Bool   // a call runs in the goroutine that reads, or began there
	calls atomic.Uint64 // odd while such a call runs; who makes it even has the reader
	dog   atomic.Bool   // the watchdog will look
	seen  uint64        // calls when it last looked; owned by the watchdog
}

// Periods of the watchdog, which are those of package rdmap. Looking rarely at short calls costs nothing.
const dogRest = 10 * time.Millisecond

// read reads until the stream ends, or until RDMA is enabled.
func (c *Conn) read() error {
	r := &reader{c: c, br: bufio.NewReaderSize(c, readAhead), over: make(chan error, 1)}
	r.run()
	return <-r.over
}

// run reads until the stream ends or the reader is given to another goroutine.
func (r *reader) run() {
	for {
		x, err := r.next()
		if err != nil {
			r.over <- r.c.ended(err)
			return
		}
		switch {
		case x == nil:
		case !x.short:
			go x.serve()
		case !r.runHere(x):
			return
		}
	}
}

// next reads a record. It returns a call that has been admitted, or nil if it was no call.
func (r *reader) next() (_ *pendingCall, err error) {
	defer r.c.recovered(&err)
	r.await(0) // between two records a peer may be silent for as long as it likes
	if _, err := r.br.Peek(1); err != nil {
		return nil, err
	}
	n, last, err := r.mark()
	if err != nil {
		return nil, err
	}
	head, err := r.peek(min(n, maxHead))
	if err != nil {
		return nil, err
	}
	xid, typ, ok := xdr.PeekXID(head)
	if ok && typ == xdr.MsgReply && r.c.backward != nil {
		return nil, r.reply(xid, n, last)
	}
	if !r.c.slots.take(r.c.stopped) {
		return nil, io.EOF
	}
	r.c.wg.Add(1)
	x := &pendingCall{c: r.c, hold: r.c.peer.Ticket()}
	ours := true // x ends here, also if the binding panics
	defer func() {
		if ours {
			x.end()
		}
	}()
	if err := r.admit(x, head, n, last); err != nil {
		return nil, err
	}
	msg, err := r.body(x, n, last)
	if err != nil {
		return nil, err
	}
	r.c.s.ctr.Inline.Add(uint64(len(msg)))
	if !x.received(msg) {
		return nil, nil
	}
	if r.c.s.cfg.TLS && r.c.tls == nil && isProbe(&x.req) {
		if r.br.Buffered() > 0 { // whoever is on the path can have put it there (RFC 9289 Section 5.1.1)
			return nil, errClearAhead
		}
		r.c.probe = x.req.XID
		return nil, ErrToTLS
	}
	if x.apart { // not short either
		ours = false
		return x, nil
	}
	if !x.whole {
		x.describe()
		x.short = r.isShort(x)
	}
	if n := x.lacks(); n > 0 {
		if err := r.wait(x, n); err != nil {
			return nil, err
		}
	}
	ours = false
	return x, nil
}

// await limits the time for the n octets that are read next, unless they have come already.
func (r *reader) await(n int) {
	switch {
	case n > r.br.Buffered():
		r.armed = true
		r.c.setReadDeadline(time.Now().Add(Allowance(n)))
	case n == 0 && r.armed:
		r.armed = false
		r.c.setReadDeadline(time.Time{})
	}
}

// peek returns the next n octets without taking them.
func (r *reader) peek(n int) ([]byte, error) {
	r.await(n)
	b, err := r.br.Peek(n)
	return b, inRecord(err)
}

// inRecord makes the end of the stream an error, since the record is not complete.
func inRecord(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// mark takes a record mark (RFC 5531 Section 11). The octets that it announces are no more than a record
// may have. The error is errToRDMA if an MPA Request comes in its place.
func (r *reader) mark() (n int, last bool, err error) {
	b, err := r.peek(MarkSize)
	if err != nil {
		return 0, false, err
	}
	if r.c.both && string(b) == mpa.RequestKey[:MarkSize] {
		r.c.ahead = bytes.Clone(buffered(r.br))
		return 0, false, ErrToRDMA
	}
	w := binary.BigEndian.Uint32(b)
	if n, last = int(w&xdr.MaxFragment), w>>31 == 1; n > r.c.s.cfg.MaxPayload {
		return 0, false, fmt.Errorf("%w: a record mark announces %d octets", ErrTooBig, n)
	}
	_, err = r.br.Discard(MarkSize)
	return n, last, err
}

// admit waits until there is a slot and memory for a call, of which head is the beginning and n octets are
// announced: for the record, if it is large, for the call, and for the reply. Meanwhile the peer waits in
// its socket, so nothing that it has sent takes memory. What small records need is part of the connection.
func (r *reader) admit(x *pendingCall, head []byte, n int, last bool) error {
	c := r.c
	room := x.replyOctets(head)
	want := room
	if n > smallRecord || !last {
		want += n
	}
	if !last { // the rest of the record is still to be announced
		want = max(want, c.s.cfg.MaxPayload)
	}
	// What the head of a protected call says of its arguments is not true of the plain ones.
	if x.whole = want == 0 && !c.s.exec.Opens(&x.req.CallHeader); x.whole {
		x.short = r.isShort(x)
	}
	if !x.short {
		want += admit.CallCost
	}
	if want == 0 && c.peer.Open() || x.hold.Try(want, false) {
		x.room = room
		return nil
	}
	x.room = room
	return r.wait(x, want)
}

// smallRecord is the size of records that take the smallest buffer.
const smallRecord = 4 << 10

// wait waits for the memory of a call.
func (r *reader) wait(x *pendingCall, want int) error {
	c := r.c
	r.await(0) // it is we who are slow
	granted := make(grant, 1)
	if x.hold.Acquire(want, false, granted) {
		return nil
	}
	err := io.EOF
	for waits := c.slots.waits(); ; waits = c.slots.waits() {
		if waits {
			c.s.ctr.Stuck.Add(1)
			err = errStuck
			break
		}
		select {
		case <-granted:
			return nil
		case <-c.slots.hints:
			continue
		case <-c.stopped:
		}
		break
	}
	if !x.hold.Withdraw() {
		<-granted
		x.hold.Release()
	}
	return err
}

// grant is a reader that waits for memory.
type grant chan struct{}

// Granted wakes it.
func (g grant) Granted() { g <- struct{}{} }

// body reads the octets of a record, of which the first n are announced.
func (r *reader) body(x *pendingCall, n int, last bool) ([]byte, error) {
	x.b = memory.Shared.Get(n)
	// The rest of a record in fragments is still to come even if the first is there.
	if x.hold.Octets() > 0 && (n > r.br.Buffered() || !last) {
		r.c.s.gate.Awaits(&x.hold, admit.Arriving, 0)
		defer r.c.s.gate.Awaits(&x.hold, admit.Still, 0)
	}
	have, one, empty := 0, last, 0
	for {
		if have+n > len(x.b.Data) {
			b := memory.Shared.Get(max(have+n, min(2*have, r.c.s.cfg.MaxPayload)))
			copy(b.Data, x.b.Data[:have])
			x.b.Release()
			x.b = b
		}
		r.await(n)
		k, err := io.ReadFull(r.br, x.b.Data[have:have+n])
		if have += k; err != nil {
			return nil, inRecord(err)
		}
		if last {
			if spare := x.hold.Octets() - x.room - admit.CallCost - have; !one && spare > 0 {
				x.hold.Add(-spare)
			}
			return x.b.Data[:have], nil
		}
		if n == 0 {
			empty++
		}
		if n, last, err = r.mark(); err != nil {
			return nil, inRecord(err)
		}
		if have+n > r.c.s.cfg.MaxPayload || empty > maxEmpty {
			return nil, ErrTooBig
		}
	}
}

// reply passes the reply to a backward call on. It takes memory without waiting for it, up to what the call
// has allowed, because a handler that holds memory may wait for it. Other replies take none.
func (r *reader) reply(xid uint32, n int, last bool) error {
	c := r.c
	caller := c.calling()
	if caller == nil || !last || n > caller.expects(xid) {
		c.s.ctr.Dropped.Add(1)
		caller.refuse(xid, ErrTooBig)
		return r.discard(n, last)
	}
	b := memory.Shared.Get(n)
	r.await(n)
	if _, err := io.ReadFull(r.br, b.Data[:n]); err != nil {
		b.Release()
		return inRecord(err)
	}
	c.s.ctr.Inline.Add(uint64(n))
	caller.deliver(arrived{buf: b, msg: b.Data[:n]})
	return nil
}

// discard reads the rest of a record.
func (r *reader) discard(n int, last bool) error {
	for have, empty := n, 0; ; have += n {
		r.await(n)
		if _, err := r.br.Discard(n); err != nil {
			return inRecord(err)
		}
		if last {
			return nil
		}
		if n == 0 {
			empty++
		}
		var err error
		if n, last, err = r.mark(); err != nil {
			return inRecord(err)
		}
		if have+n > r.c.s.cfg.MaxPayload || empty > maxEmpty {
			return ErrTooBig
		}
	}
}

// isShort reports whether a call may run in the goroutine that reads; see the Dispatch of an RDMA connection.
func (r *reader) isShort(x *pendingCall) bool {
	s := r.c.s
	if s.cfg.HandlerLimit <= 0 || r.here.Load() {
		return false
	}
	if x.t.Once && s.exec.Duplicates.Running(&x.req) {
		return false
	}
	return !x.t.Blocks || x.pace().Short(s.cfg.HandlerLimit)
}

// runHere runs a call, and reports whether the reader still belongs to this goroutine.
func (r *reader) runHere(x *pendingCall) bool {
	r.here.Store(true)
	s := r.calls.Add(1)
	if !r.dog.Load() && r.dog.CompareAndSwap(false, true) {
		time.AfterFunc(dogRest, r.look)
	}
	x.serve()
	r.here.Store(false)
	return r.calls.CompareAndSwap(s, s+1)
}

// look is the watchdog. It gives the reader of a call that it has seen before to another goroutine, and
// rests when there were no calls since it last looked.
func (r *reader) look() {
	s := r.calls.Load()
	running, same := s&1 == 1, s == r.seen
	r.seen = s
	switch {
	case running && same:
		if r.calls.CompareAndSwap(s, s+1) {
			r.c.s.ctr.Takeovers.Add(1)
			go r.run()
		}
	case running:
		time.AfterFunc(r.c.s.cfg.HandlerLimit, r.look)
		return
	case !same:
		time.AfterFunc(dogRest, r.look)
		return
	}
	r.dog.Store(false)
	// A call that began before the store has not started the watchdog.
	if r.calls.Load()&1 == 1 && r.dog.CompareAndSwap(false, true) {
		time.AfterFunc(dogRest, r.look)
	}
}

// buffered returns what br has read ahead.
func buffered(br *bufio.Reader) []byte {
	b, _ := br.Peek(br.Buffered()) // cannot fail
	return b
}
