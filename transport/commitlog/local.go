package commitlog

import (
	"bytes"
	"cmp"
	"context"
	"sync"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport/commitlog/internal/machine"
)

// Local opens a session for p, a producer in this process, which appends to the memory without a
// connection. As with Advertise, the previous session ends, and the next one will end this one. If the memory fails,
// or a Verify does (ErrMismatch), the appends of p end with that error, and p is closed: there will be no other session.
// The errors are those of Advertise and Producer.Open.
func (l *Log) Local(ctx context.Context, p *Producer) error {
	l.order.Lock()
	defer l.order.Unlock()
	a, err := l.open(ctx, Instance{})
	if err != nil {
		return err
	}
	return l.local(p, a)
}

// local gives the session of a to p. The caller holds l.order.
func (l *Log) local(p *Producer, a *Answer) error {
	loc := &local{p: p, head: l.mem.Head, ring: guarded(l.mem.Ring(a.Mode)), tail: guarded(l.mem.TailWord())}
	l.state.Lock()
	if err := l.err; err != nil {
		l.state.Unlock()
		return err
	}
	l.loc = loc
	l.state.Unlock()
	return p.open(loc, a)
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
	sum := region.CRC32C.New()
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
