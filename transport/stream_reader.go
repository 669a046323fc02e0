package transport

import (
	"bufio"
	"bytes"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/xdr"
)

// streamReader reads the records of a streamConn. It belongs to one goroutine at a time. That runs a
// short call itself; if the call takes too long all the same, the watchdog gives the reader to another.
type streamReader struct {
	c    *streamConn
	in   *patientReader
	br   *bufio.Reader
	rr   *xdr.RecordReader
	hint int        // the size of the last record
	over chan error // the end of the stream

	here  atomic.Bool   // a call runs in the goroutine that reads, or began there
	calls atomic.Uint64 // odd while such a call runs; who makes it even has the reader
	dog   atomic.Bool   // the watchdog will look
	seen  uint64        // calls when it last looked; owned by the watchdog
}

// Periods of the watchdog, which are those of package rdmap. Looking rarely at short calls costs nothing.
const dogRest = 10 * time.Millisecond

// read reads until the stream ends, or until RDMA is enabled.
func (c *streamConn) read() error {
	in := &patientReader{c: c}
	br := bufio.NewReaderSize(in, 64<<10)
	r := &streamReader{
		c: c, in: in, br: br, rr: xdr.NewRecordReader(br, c.s.cfg.MaxPayload),
		hint: minInline, over: make(chan error, 1),
	}
	r.run()
	return <-r.over
}

// run reads until the stream ends or the reader is given to another goroutine. Config.Credits limits the
// calls in flight, so that others wait in the peer's socket.
func (r *streamReader) run() {
	c := r.c
	for {
		r.in.inside = r.br.Buffered()+len(r.rr.Buffered()) > 0
		if c.both && startsMPA(r.rr.Buffered(), r.br) {
			c.ahead = append(bytes.Clone(r.rr.Buffered()), buffered(r.br)...)
			r.over <- errToRDMA
			return
		}
		b, msg, err := readRecord(r.rr, &shared, r.hint)
		if err != nil {
			r.over <- err
			return
		}
		r.hint = len(msg)
		c.s.ctr.inline.Add(uint64(len(msg)))
		if c.replied(b, msg) {
			continue
		}
		c.slots <- struct{}{}
		c.wg.Add(1)
		x := c.received(b, msg)
		switch {
		case x == nil:
		case !r.isShort(x):
			go x.serve()
		case !r.runHere(x):
			return
		}
	}
}

// isShort reports whether a call may run in the goroutine that reads; see rdmaServed.dispatch.
func (r *streamReader) isShort(x *streamCall) bool {
	s := r.c.s
	if s.cfg.HandlerGrace <= 0 || r.here.Load() || s.dups.running(&x.req) {
		return false
	}
	return !MayBlock(s.Handler, x.req.Prog, x.req.Vers, x.req.Proc) || x.pace().short(s.cfg.HandlerGrace)
}

// runHere runs a call, and reports whether the reader still belongs to this goroutine.
func (r *streamReader) runHere(x *streamCall) bool {
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
func (r *streamReader) look() {
	s := r.calls.Load()
	running, same := s&1 == 1, s == r.seen
	r.seen = s
	switch {
	case running && same:
		if r.calls.CompareAndSwap(s, s+1) {
			r.c.s.ctr.takeovers.Add(1)
			go r.run()
		}
	case running:
		time.AfterFunc(r.c.s.cfg.HandlerGrace, r.look)
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
