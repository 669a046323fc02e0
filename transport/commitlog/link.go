package commitlog

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"sync"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// ErrMismatch: a Verify of a session of Local has found other octets.
var ErrMismatch = errors.New("commitlog: the medium does not hold what was flushed to it (look at the device)")

// pollHead is how long a producer that is not told the head waits before it reads the head.
const pollHead = 2 * time.Millisecond

// remote is a session over a connection.
type remote struct {
	p    *Producer
	c    *rdmap.Conn
	head region.STag
	told bool // the consumer tells the head by Immediate Data

	mu      sync.Mutex
	reading bool // the head is being read, or will be
	looked  bool // it was read in this session
	sink    region.Region
	word    []byte
}

// post implements link. It is called by one goroutine at a time.
func (r *remote) post(f *flight) error {
	f.b.Ops[len(f.b.Ops)-1].Done = f
	err := r.c.Post(f.b.Ops)
	if err != nil {
		go r.c.Close() // the session is over: end the connection too, so that whoever waits for that connects again
	}
	return err
}

// blocked implements link. Without Immediate Data it reads the head from time to time; with it only
// once, because nobody was told about releases while the session was being opened.
func (r *remote) blocked() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reading || r.told && r.looked {
		return
	}
	r.reading, r.looked = true, true
	time.AfterFunc(pollHead, r.read)
}

// probe implements link: whoever answers a Read lives.
func (r *remote) probe() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.reading {
		r.reading = true
		go r.read() // in a goroutine: the caller holds p.mu
	}
}

// silent implements link.
func (r *remote) silent() { r.c.Abort(ErrSilent) }

// read reads the published head. It must hold no lock while it posts, because other operations may complete there.
func (r *remote) read() {
	r.mu.Lock()
	if r.word == nil {
		word := make([]byte, 8)
		reg, err := r.c.Register(word, region.ReadSink)
		if err != nil { // the connection is over
			r.mu.Unlock()
			return
		}
		r.word, r.sink = word, reg
	}
	sink := r.sink.STag()
	r.mu.Unlock()
	// An error ends the connection, and HandleClose the session.
	_ = r.c.Post([]verbs.WR{{Op: verbs.OpReadRequest, STag: r.head, Len: 8, Sink: sink, Done: (*headRead)(r)}})
}

// headRead is the Completer for the read of the head.
type headRead remote

// Complete implements verbs.Completer.
func (h *headRead) Complete(err error) {
	r := (*remote)(h)
	r.mu.Lock()
	r.reading = false
	var head uint64
	if err == nil {
		head = binary.BigEndian.Uint64(r.word)
	}
	r.mu.Unlock()
	if err == nil {
		r.p.publishedBy(r, head)
	}
}

// Local opens a session for p, a producer in this process: Prepare and Prepared.Local in one.
func (l *Log) Local(ctx context.Context, p *Producer) error {
	s, err := l.Prepare(ctx, Instance{})
	if err != nil {
		return err
	}
	return s.Local(p)
}

// guarded returns m as Guarded: all memory of memory.go is.
func guarded(m region.Memory) region.Guarded {
	g, _ := m.(region.Guarded)
	return g
}

// The STags of a session without a connection.
const (
	localRing = iota
	localTail
)

// local is a session without a connection. A goroutine that lives as long as there is something to
// do executes what is posted. If the posting goroutine would only wait, it does so itself: to wake
// another one costs a fifth of what the disk takes.
type local struct {
	p   *Producer
	l   *Log
	mem [2]region.Guarded // by STag

	mu      sync.Mutex
	queue   []*flight
	running bool
	revoked bool
	cause   error         // of revoked, if the memory has failed
	idle    chan struct{} // closed when revoked and not running; made by drain
}

// post implements link.
func (s *local) post(f *flight) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.revoked {
		return ErrClosed
	}
	s.queue = append(s.queue, f)
	if s.running {
		return nil
	}
	s.running = true
	if !f.here {
		go s.run()
		return nil
	}
	s.mu.Unlock()
	s.run()
	s.mu.Lock()
	return nil
}

// run does what the engine would.
func (s *local) run() {
	for f := s.next(); f != nil; f = s.next() {
		var err error
		for i := 0; i < len(f.b.Ops) && err == nil; i++ {
			err = s.execute(&f.b.Ops[i])
		}
		if err != nil { // a later tail would cover records that failed
			s.end(err)
			s.p.failBy(s, err)
			continue
		}
		f.Complete(nil)
	}
}

func (s *local) execute(wr *verbs.WR) error {
	mem, at := s.mem[wr.STag], int(wr.TO)
	switch wr.Op {
	case verbs.OpFlushRequest:
		return mem.Persist(at, int(wr.Len))
	case verbs.OpVerifyRequest: // the hash of what the medium holds
		sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
		err := region.ReadBack(mem, sum, at, int(wr.Len))
		if err == nil && !bytes.Equal(sum.Sum(nil), wr.Body) {
			err = ErrMismatch
		}
		return err
	default: // a Write, or the Atomic Write of the tail
		return mem.Store(at, wr.Body)
	}
}

// next takes the oldest batch, unless the session has ended.
func (s *local) next() *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 || s.revoked {
		s.running = false
		if s.idle != nil {
			close(s.idle)
			s.idle = nil
		}
		return nil
	}
	f := s.queue[0]
	s.queue = s.queue[1:]
	return f
}

// revoke drops what is queued. err, if not nil, is that of the memory.
func (s *local) revoke(err error) {
	s.end(err)
	go func() { // the caller may be in the middle of an append
		if err != nil {
			s.p.failBy(s, err)
		} else {
			s.p.end(s)
		}
	}()
}

// end drops what is queued, and posts nothing more.
func (s *local) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoked, s.queue, s.cause = true, nil, cmp.Or(s.cause, err)
}

// failed returns the error of the memory.
func (s *local) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// drain waits until what is running has ended.
func (s *local) drain(ctx context.Context) error {
	s.mu.Lock()
	if !s.running {
		s.mu.Unlock()
		return nil
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	s.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	select { // results beat cancellation
	case <-idle:
		return nil
	default:
		return region.ErrPinned
	}
}

// published passes on the durable head.
func (s *local) published(head uint64) { s.p.publishedBy(s, head) }

// blocked implements link: the log tells the session about the head.
func (s *local) blocked() {}

// probe implements link: this process lives.
func (s *local) probe() { go s.published(s.l.mem.head.Load()) }

// silent implements link. What is running belongs to the memory.
func (s *local) silent() { s.revoke(nil) }

// Carrier appends records to a log in another way than by RDMA. Only one goroutine at a time calls its
// methods. An error ends the session.
type Carrier interface {
	// Carry appends payloads, whose records have the numbers seq, seq+1 and so on, and returns when
	// they are part of the log. head is the durable head, or 0 if it is unknown. Carry borrows payloads
	// until it returns.
	Carry(ctx context.Context, seq uint64, payloads [][]byte) (head uint64, err error)
	// Head asks for the durable head. It is called from time to time while the log is full.
	Head(ctx context.Context) (uint64, error)
}

// Limits of the wait before a carrier is asked for the head again.
const (
	leastHeadWait = time.Millisecond
	mostHeadWait  = 64 * time.Millisecond
)

// OpenCarrier is like Open, for a session whose records c carries. The STags in a have no
// meaning. The session ends when ctx ends, and has a goroutine until then. The context that OpenCarrier returns ends with
// the session; its cause says why. Errors: ErrBadAnswer, ErrLostRecords, ErrClosed. Then there is no session.
func (p *Producer) OpenCarrier(ctx context.Context, c Carrier, a *Answer) (context.Context, error) {
	s := &carried{p: p, c: c, kick: make(chan struct{}, 1)}
	s.ctx, s.end = context.WithCancelCause(ctx)
	err := p.open(s, a)
	if err != nil {
		s.end(err)
	} else {
		go s.run()
	}
	return s.ctx, err
}

// carried is a session over a carrier.
type carried struct {
	p    *Producer
	c    Carrier
	ctx  context.Context // of the session
	end  context.CancelCauseFunc
	kick chan struct{} // one slot: there is something to do

	mu    sync.Mutex
	queue []*flight
	full  bool // there is no room: ask for the head
}

// post implements link.
func (s *carried) post(f *flight) error {
	s.mu.Lock()
	s.queue = append(s.queue, f)
	s.mu.Unlock()
	s.wake()
	return s.ctx.Err()
}

// blocked implements link: somebody has to ask for the head.
func (s *carried) blocked() {
	s.mu.Lock()
	s.full = true
	s.mu.Unlock()
	s.wake()
}

// probe implements link: blocked asks for the head again and again.
func (s *carried) probe() {}

// silent implements link: what the carrier waits for ends.
func (s *carried) silent() { s.end(ErrSilent) }

func (s *carried) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

func (s *carried) run() {
	defer s.p.end(s)
	for wait := leastHeadWait; s.ctx.Err() == nil; {
		s.mu.Lock()
		var f *flight
		full := s.full
		if len(s.queue) > 0 {
			f, s.queue = s.queue[0], s.queue[1:]
		} else {
			s.full = false // publishing the head sets it again if that was not enough
		}
		s.mu.Unlock()
		var head uint64
		var err error
		switch {
		case f != nil:
			wait = leastHeadWait
			seq, payloads := carriedBy(f.b)
			if head, err = s.c.Carry(s.ctx, seq, payloads); err == nil {
				f.Complete(nil)
			}
		case full:
			select {
			case <-time.After(wait):
				head, err = s.c.Head(s.ctx)
			case <-s.ctx.Done():
				err = s.ctx.Err()
			}
			wait = min(2*wait, mostHeadWait)
		default:
			select {
			case <-s.kick:
			case <-s.ctx.Done():
			}
			continue
		}
		if err != nil {
			s.end(err)
			return
		}
		s.p.publishedBy(s, head)
	}
}

// carriedBy finds the payloads of a group, which are in the octets that RDMA would write, and the number of
// the first one.
func carriedBy(b *batch) (seq uint64, payloads [][]byte) {
	for i := range b.runs[:b.nruns] {
		for at := b.runs[i].data; len(at) > 0; {
			r := parseRecord(at)
			if r.Filler != 0 {
				at = at[min(align, len(at)):]
				continue
			}
			if len(payloads) == 0 {
				seq = r.Seq
			}
			payloads = append(payloads, at[recordHeaderLen:recordHeaderLen+r.Len])
			at = at[r.Size():]
		}
	}
	return seq, payloads
}
