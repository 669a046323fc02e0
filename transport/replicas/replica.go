package replicas

import (
	"context"
	"errors"

	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/rpc"
)

// ErrFenced: another producer has taken over.
var ErrFenced = errors.New("replicas: another producer has taken over (Open takes it back)")

// Replica is one of the logs.
type Replica interface {
	// Open begins a session and ends all others for good: what they append is never acknowledged again. It tries
	// until ctx ends.
	Open(ctx context.Context) (Session, error)
}

// Session is a session on one of the logs. It is safe for concurrent use.
type Session interface {
	// Limit is the size of the largest record, in octets.
	Limit() int
	// Begin starts an append, in order. It borrows record until the append is over.
	Begin(record []byte) (*commitlog.Pending, error)
	// Read calls visit with all records that are acknowledged, in order, from the oldest one that is kept on.
	Read(ctx context.Context, visit func(*commitlog.Record) error) error
	// Err returns why the session has ended, an error that wraps ErrFenced if another one has begun. It may
	// return nil as long as nothing was appended since.
	Err() error
	// Close ends the session: nothing that has not been acknowledged is sent again.
	Close(ctx context.Context) error
}

// Push returns the log called name at the server behind caller as a Replica. cfg may be nil; its Secret is
// ignored.
func Push(caller rpc.Caller, name string, secret push.Secret, cfg *push.Config) Replica {
	p := &pushReplica{caller: caller, name: name}
	if cfg != nil {
		p.cfg = *cfg
	}
	p.cfg.Secret = secret
	return p
}

type pushReplica struct {
	caller rpc.Caller
	name   string
	cfg    push.Config
}

func (p *pushReplica) Open(ctx context.Context) (Session, error) {
	s, err := push.Dial(ctx, p.caller, p.name, &p.cfg)
	if err != nil {
		return nil, err
	}
	return &pushSession{s}, nil
}

type pushSession struct{ *push.Session }

func (s *pushSession) Err() error {
	err := s.Session.Err()
	if errors.Is(err, push.StatusFenced) {
		return errors.Join(ErrFenced, err)
	}
	return err
}

func (s *pushSession) Read(ctx context.Context, visit func(*commitlog.Record) error) error {
	in := s.Reader(0)
	for {
		r, err := in.TryNext(ctx)
		if err != nil || r == nil {
			return err
		}
		if err := visit(r); err != nil {
			return err
		}
	}
}

// Consumer is what Keep needs of a log: a *push.Log or a *commitlog.Log.
type Consumer interface {
	Next(ctx context.Context) (*commitlog.Record, error)
	Release(seq uint64) error
}

// Keep is the consumer of a replica: it releases the records that Trim has made superfluous, until ctx ends or
// the log fails. Call it from push.Server.Consume.
func Keep(ctx context.Context, l Consumer) error {
	var s state
	for {
		r, err := l.Next(ctx)
		if err != nil {
			return err
		}
		if err := s.apply(r); err != nil {
			return err
		}
		if r.Payload[0] != kindTrim {
			continue
		}
		upto := r.Seq - 1
		if len(s.kept) > 0 {
			upto = s.kept[0].seq - 1
		}
		if err := l.Release(min(upto, r.Seq-1)); err != nil {
			return err
		}
	}
}
