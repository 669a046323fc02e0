package commitlog

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"hash/crc32"
	"sync"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport/commitlog/internal/machine"
)

// pollHead is how long a producer that is not told the head waits before it reads the head.
const pollHead = 2 * time.Millisecond

// remote is a session over a connection.
type remote struct {
	p                *Producer
	c                *rdmap.Conn
	ring, tail, head region.STag
	flags            verbs.FlushFlags
	told             bool // the consumer tells the head by Immediate Data
	wrs              []verbs.WR

	mu      sync.Mutex
	reading bool // the head is being read, or will be
	looked  bool // it was read in this session
	sink    region.Region
	word    []byte
}

func newRemote(p *Producer, c *rdmap.Conn, a *Answer) *remote {
	r := &remote{
		p: p, c: c, ring: region.STag(a.RingSTag), tail: region.STag(a.TailSTag), head: region.STag(a.HeadSTag),
		flags: verbs.FlushVisible, told: c.ConnectionState().Extensions&verbs.Ext7306 != 0,
	}
	if a.Persistent {
		r.flags = verbs.FlushPersistent
	}
	return r
}

// post implements link. It is called by one goroutine at a time.
func (r *remote) post(f *flight) error {
	r.wrs = r.wrs[:0]
	for _, op := range f.b.Ops {
		wr := verbs.WR{STag: r.ring, TO: op.Off}
		switch op.Kind {
		case machine.WireWrite:
			wr.Op, wr.Body = verbs.OpWrite, op.Data
		case machine.WireFlush:
			wr.Op, wr.Len, wr.Flags = verbs.OpFlushRequest, uint32(op.N), r.flags
		case machine.WireVerify:
			wr.Op, wr.Len, wr.Body = verbs.OpVerifyRequest, uint32(op.N), op.Data
		case machine.WireSetTail:
			wr.Op, wr.STag, wr.Body = verbs.OpAtomicWriteRequest, r.tail, op.Data
		case machine.WireFlushTail:
			wr.Op, wr.STag, wr.Len, wr.Flags = verbs.OpFlushRequest, r.tail, uint32(op.N), r.flags
		}
		r.wrs = append(r.wrs, wr)
	}
	r.wrs[len(r.wrs)-1].Done = f
	err := r.c.Post(r.wrs)
	if err != nil {
		go r.c.Close() // the session is over: end the connection too, so that whoever waits for that connects again
	}
	return err
}

// wait implements link: the caller may become the goroutine that reads the socket.
func (r *remote) wait(ctx context.Context, e *Pending) error { return r.c.Wait(ctx, &e.w) }

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

// local is a session without a connection. A goroutine that lives as long as there is something to
// do executes what is posted. If the posting goroutine would only wait, it does so itself: to wake
// another one costs a fifth of what the disk takes.
type local struct {
	p          *Producer
	ring, tail region.Guarded
	head       func() uint64 // durable
	look       sync.Once

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

func (s *local) run() {
	for f := s.next(); f != nil; f = s.next() {
		if err := s.execute(f.b); err != nil { // a later tail would cover records that failed
			s.end(err)
			s.p.failBy(s, err)
			continue
		}
		f.Complete(nil)
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

// execute does what the engine would, up to the first error.
func (s *local) execute(b *machine.Batch) error {
	for i := range b.Ops {
		if err := s.act(&b.Ops[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *local) act(op *machine.WireOp) error {
	switch op.Kind {
	case machine.WireWrite:
		return s.ring.Store(int(op.Off), op.Data)
	case machine.WireFlush:
		return s.ring.Persist(int(op.Off), op.N)
	case machine.WireSetTail:
		return s.tail.Store(0, op.Data)
	case machine.WireFlushTail:
		return s.tail.Persist(0, op.N)
	default:
		return s.verify(op)
	}
}

// verify compares the hash of what the medium holds.
func (s *local) verify(op *machine.WireOp) error {
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	if err := region.ReadBack(s.ring, sum, int(op.Off), op.N); err != nil {
		return err
	}
	if !bytes.Equal(sum.Sum(nil), op.Data) {
		return ErrMismatch
	}
	return nil
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

// wait implements link: the caller can only sleep.
func (s *local) wait(context.Context, *Pending) error { return ErrClosed }

// blocked implements link: the log tells the session about the head, except about releases while
// the session was being opened.
func (s *local) blocked() {
	s.look.Do(func() { go func() { s.published(s.head()) }() }) // in a goroutine: the caller holds p.mu
}

// probe implements link: this process lives.
func (s *local) probe() { go s.published(s.head()) }

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
// meaning. The session ends when ctx ends. The context that OpenCarrier returns ends with the session; its
// cause says why. Errors: ErrBadAnswer, ErrLostRecords, ErrClosed. Then there is no session.
func (p *Producer) OpenCarrier(ctx context.Context, c Carrier, a *Answer) (context.Context, error) {
	s := &carried{p: p, c: c}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	err := p.open(s, a)
	if err != nil {
		s.cancel(err)
	}
	return s.ctx, err
}

// carried is a session over a carrier. A goroutine that lives as long as there is something to do carries
// what is posted.
type carried struct {
	p      *Producer
	c      Carrier
	ctx    context.Context // of the session
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	queue   []*flight
	full    bool // there is no room: ask for the head
	running bool
	over    bool

	payloads [][]byte // of the group in flight
}

// post implements link.
func (s *carried) post(f *flight) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return ErrClosed
	}
	s.queue = append(s.queue, f)
	s.start()
	return nil
}

// blocked implements link: somebody has to ask for the head.
func (s *carried) blocked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.full = true
		s.start()
	}
}

// wait implements link: the caller can only sleep.
func (s *carried) wait(context.Context, *Pending) error { return ErrClosed }

// probe implements link: blocked asks for the head again and again.
func (s *carried) probe() {}

// silent implements link: what the carrier waits for ends.
func (s *carried) silent() { s.end(ErrSilent) }

// start starts the goroutine if none runs. The caller holds mu.
func (s *carried) start() {
	if !s.running {
		s.running = true
		go s.run()
	}
}

func (s *carried) run() {
	for wait := leastHeadWait; ; {
		f, more := s.next()
		var err error
		switch {
		case !more:
			return
		case f != nil:
			wait = leastHeadWait
			err = s.carry(f)
		default:
			err = s.askHead(wait)
			wait = min(2*wait, mostHeadWait)
		}
		if err != nil {
			s.end(err)
		}
	}
}

// next takes the oldest group; nil and true mean that somebody must ask for the head.
func (s *carried) next() (*flight, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || len(s.queue) == 0 && !s.full {
		s.running = false
		return nil, false
	}
	if len(s.queue) == 0 {
		s.full = false // publishing the head sets it again if that was not enough
		return nil, true
	}
	f := s.queue[0]
	s.queue = s.queue[1:]
	return f, true
}

// carry takes one group to the log.
func (s *carried) carry(f *flight) error {
	seq := s.records(f.b)
	head, err := s.c.Carry(s.ctx, seq, s.payloads)
	clear(s.payloads)
	if err != nil {
		return err
	}
	f.Complete(nil)
	s.p.publishedBy(s, head)
	return nil
}

// records finds the payloads of a group, which are in the octets that RDMA would write, and the number of
// the first one.
func (s *carried) records(b *machine.Batch) (seq uint64) {
	s.payloads = s.payloads[:0]
	for i := range b.Ops {
		if b.Ops[i].Kind != machine.WireWrite {
			continue
		}
		for at := b.Ops[i].Data; len(at) > 0; {
			r := machine.ParseRecord(at)
			if r.Filler != 0 {
				at = at[min(machine.Align, len(at)):]
				continue
			}
			if len(s.payloads) == 0 {
				seq = r.Seq
			}
			s.payloads = append(s.payloads, at[machine.RecordHeaderLen:machine.RecordHeaderLen+r.Len])
			at = at[r.Size():]
		}
	}
	return seq
}

// askHead asks for the head after a while.
func (s *carried) askHead(wait time.Duration) error {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
	head, err := s.c.Head(s.ctx)
	if err != nil {
		return err
	}
	s.p.publishedBy(s, head)
	return nil
}

// end ends the session.
func (s *carried) end(err error) {
	s.mu.Lock()
	s.over, s.queue = true, nil
	s.mu.Unlock()
	s.cancel(err)
	s.p.end(s)
}
