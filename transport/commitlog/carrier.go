package commitlog

import (
	"context"
	"sync"
	"time"

	"github.com/stag-rdma/stag/transport/commitlog/internal/machine"
)

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
