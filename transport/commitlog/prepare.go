package commitlog

import (
	"context"
	"errors"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// ErrFenced: another session has begun since, or this one already has its producer.
var ErrFenced = errors.New("commitlog: the session is over, or already has its producer (begin another one)")

// Prepared is a session that has begun before its producer has connected: the producer gets the
// answer in one way, such as an RPC, and then appends in another. It is safe for concurrent use.
// Either Attach or Local succeeds, once.
type Prepared struct {
	l    *Log
	a    Answer
	used bool // order is held
}

// Instance names the producer of a session: random octets that whoever decides about sessions compares
// with [Log.Instance]. Zeros name nobody.
type Instance = [16]byte

// Prepare ends the current session and begins another one, as Advertise does. The new session belongs
// to instance, and that is durable when Prepare returns nil. Its errors are those of Advertise.
func (l *Log) Prepare(ctx context.Context, instance Instance) (*Prepared, error) {
	l.order.Lock()
	defer l.order.Unlock()
	a, err := l.open(ctx, instance)
	if err != nil {
		return nil, err
	}
	return &Prepared{l: l, a: *a}, nil
}

// Answer returns what has survived, and where the session begins. It has no STags.
func (s *Prepared) Answer() Answer { return s.a }

// Head returns the durable head. The ring before it may be overwritten.
func (s *Prepared) Head() uint64 { return s.l.mem.Head() }

// Attach gives the session to the producer at the other end of c, and returns the answer, which
// the producer must be told. Errors: ErrNoExtension, after which another way may be tried;
// ErrFenced, ErrClosed, and the first error of the memory.
func (s *Prepared) Attach(c *rdmap.Conn) (*Answer, error) {
	if c.ConnectionState().Extensions&verbs.ExtCommit == 0 {
		return nil, ErrNoExtension
	}
	s.l.order.Lock()
	defer s.l.order.Unlock()
	if err := s.use(); err != nil {
		return nil, err
	}
	a := s.a
	if err := s.l.register(c, &a); err != nil {
		return nil, err
	}
	return &a, nil
}

// Local gives the session to p, a producer in this process. Errors: ErrFenced, ErrClosed,
// the first error of the memory, and those of Producer.Open.
func (s *Prepared) Local(p *Producer) error {
	s.l.order.Lock()
	defer s.l.order.Unlock()
	if err := s.use(); err != nil {
		return err
	}
	return s.l.local(p, &s.a)
}

// use takes the session, if it is still the last one. The caller holds l.order.
func (s *Prepared) use() error {
	if s.used || s.l.epoch() != s.a.Epoch {
		return ErrFenced
	}
	s.used = true
	return nil
}

// epoch returns the epoch of the last session.
func (l *Log) epoch() uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cons.Epoch()
}
