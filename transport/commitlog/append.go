package commitlog

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/transport/commitlog/internal/machine"
)

// Result is the result of an append.
type Result struct {
	Seq   uint64 // the number of the record
	Level Level  // how durable it is
}

// Pending is an append in progress.
type Pending struct {
	p     *Producer
	a     machine.Append
	level Level
	w     rdmap.Waiter
	ch    chan struct{} // one slot, filled when the append is over
}

// Append appends a record and returns when it is part of the log. Appends of several goroutines
// share flushes. Append borrows payload until it returns.
//
// While there is no session, Append waits for one. If ctx ends first, the error is that of ctx. If the
// record may have been sent, the error also wraps ErrInDoubt; otherwise the record will never be sent. The same
// holds for ErrSilent, if ProducerOptions.Silence is set. Other errors: ErrTooLarge, ErrClosed.
func (p *Producer) Append(ctx context.Context, payload []byte) (Result, error) {
	return p.append(ctx, payload, false)
}

// TryAppend is Append, with ErrFull at once as from TryBegin.
func (p *Producer) TryAppend(ctx context.Context, payload []byte) (Result, error) {
	return p.append(ctx, payload, true)
}

func (p *Producer) append(ctx context.Context, payload []byte, now bool) (Result, error) {
	e, _ := pendings.Get().(*Pending)
	// A caller that may give up must not be the one that carries out the append.
	if err := e.begin(p, payload, now, ctx.Done() == nil); err != nil {
		return Result{}, err
	}
	r, err := e.Wait(ctx)
	if r.Seq != 0 { // it is over, and nobody else refers to it anymore
		pendings.Put(e)
	}
	return r, err
}

var pendings = sync.Pool{New: func() any { return &Pending{ch: make(chan struct{}, 1)} }}

// Begin starts an append; call Wait on the result. Appends that one goroutine begins one after the other
// are in the log in that order. Begin borrows payload until Wait returns. Errors: ErrTooLarge, ErrQueue, ErrClosed.
func (p *Producer) Begin(payload []byte) (*Pending, error) {
	return p.newPending(payload, false)
}

// TryBegin is Begin for callers that the consumer may wait for before it releases records. If there is no
// room for the record after all records begun before it, it is not appended and the error is ErrFull.
// Before the first session TryBegin is the same as Begin.
func (p *Producer) TryBegin(payload []byte) (*Pending, error) {
	return p.newPending(payload, true)
}

// Released tells p the durable head, as Prepared.Head returns it: a release may be on its way to p still. A head
// that is impossible, or older than the one that p knows, changes nothing.
func (p *Producer) Released(head uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.published(head)
}

func (p *Producer) newPending(payload []byte, now bool) (*Pending, error) {
	p.mu.Lock()
	octets := p.m.Octets()
	p.mu.Unlock()
	if octets > 0 && octets+machine.RecordSize(len(payload)) > p.queue {
		return nil, ErrQueue
	}
	e := &Pending{ch: make(chan struct{}, 1)}
	if err := e.begin(p, payload, now, false); err != nil {
		return nil, err
	}
	return e, nil
}

// begin queues payload; with now, only if there is room for it. stays says that the caller will
// wait until the append is over, whatever happens.
func (e *Pending) begin(p *Producer, payload []byte, now, stays bool) error {
	select {
	case <-e.ch:
	default:
	}
	e.w.Reset()
	e.p, e.a = p, machine.Append{Payload: payload, Tag: e}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return p.err
	}
	if err := e.add(now); err != nil {
		return err
	}
	p.silence.begin(p)
	p.gather(stays)
	return nil
}

func (e *Pending) add(now bool) error {
	if !now {
		return e.p.m.Add(&e.a)
	}
	err := e.p.m.TryAdd(&e.a)
	if errors.Is(err, ErrFull) {
		e.p.full()
	}
	return err
}

// over wakes the goroutine that waits.
func (e *Pending) over() {
	e.w.Complete(nil)
	e.ch <- struct{}{}
}

// Wait waits for the append, and returns what Producer.Append returns. Call it once.
func (e *Pending) Wait(ctx context.Context) (Result, error) {
	p := e.p
	for {
		p.mu.Lock()
		if e.a.Over {
			p.mu.Unlock()
			return Result{Seq: e.a.Seq, Level: e.level}, e.a.Err
		}
		if ctx.Err() != nil {
			defer p.mu.Unlock()
			return Result{}, e.abandon(ctx.Err())
		}
		l, changed := p.link, p.changed
		p.mu.Unlock()
		if l != nil && l.wait(ctx, e) == nil {
			continue
		}
		select {
		case <-e.ch:
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// abandon gives the append up. The caller holds the producer's mu.
func (e *Pending) abandon(cause error) error {
	if e.p.m.Abandon(&e.a) {
		return cause
	}
	return fmt.Errorf("%w: %w", ErrInDoubt, cause)
}
