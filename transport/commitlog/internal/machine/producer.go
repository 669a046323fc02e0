package machine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/stag-rdma/stag/internal/mutant"
	"github.com/stag-rdma/stag/transport/commitlog/internal/layout"
)

// Errors of the producer.
var (
	// ErrTooLarge: the payload is larger than half of the ring takes.
	ErrTooLarge = errors.New("commitlog: record too large (split it, or create a larger log)")
	// ErrFull: there is no room for the record until others are released.
	ErrFull = errors.New("commitlog: no room for the record (try again when the consumer has released some)")
	// ErrBadAnswer: an open answer that no consumer gives.
	ErrBadAnswer = errors.New("commitlog: impossible open answer")
	// ErrLostRecords: acknowledged records are gone, or somebody else has appended.
	ErrLostRecords = errors.New("commitlog: the log does not hold what was acknowledged (is it the same log, and has nobody else appended?)")
)

// Append is one record on its way. It belongs to the machine from Add until it is Over.
type Append struct {
	// Payload is borrowed until the append is over, or has been replaced by Abandon.
	Payload []byte
	// Seq is valid when it is over without error.
	Seq uint64
	// Err says why not; valid when Over.
	Err  error
	Over bool
	// Tag is the owner's.
	Tag any

	assigned bool
}

// Limits of a Producer. All are needed.
type Limits struct {
	InFlight int // batches that may be unanswered
	Batch    int // octets of a batch, unless one record has more
}

// Producer is the side that appends.
type Producer struct {
	Limits
	// Window is how much of the ring may hold what is not released, octets; 0: all of it. A
	// record that is larger goes out alone.
	Window uint64

	verify bool

	id         [16]byte
	attached   bool // there has been an answer
	open       bool // a session is open
	epoch      uint32
	salt       uint64
	capacity   uint64
	mode       layout.Mode
	hash       layout.Hash
	head, tail uint64 // published durable head; end of what was handed to the wire
	seq        uint64 // of the next record that is put into a batch

	queue  []*Append // have no place yet
	sent   []*Append // have a place, in order
	flight []*Batch  // unanswered, in order
	spare  []*Batch
	over   []*Append // what is handed out as over, until the next event
}

// NewProducer returns a producer without a session. It lets verify when asked.
func NewProducer(l Limits, verify bool) *Producer { return &Producer{Limits: l, verify: verify} }

// Open is told the answer of a session that is new. What was on its way in an earlier one is
// settled by it alone: what has survived is over, the rest is queued again, in front.
// The list are those that are over now; it is lent until the next event, as all are.
func (p *Producer) Open(a *Answer) ([]*Append, error) {
	if err := p.check(a); err != nil {
		return nil, err
	}
	p.over = p.over[:0]
	if p.attached {
		p.finish(int(a.NextSeq - p.oldest()))
	}
	for _, e := range p.sent {
		e.assigned = false
	}
	p.queue = append(slices.Clone(p.sent), p.queue...)
	p.sent, p.flight = nil, nil // what the old session lent may still be read
	p.id, p.epoch, p.salt, p.capacity = a.ID, a.Epoch, a.Salt, a.Capacity
	p.mode, p.hash, p.head, p.tail, p.seq = a.Mode, a.Hash, a.Head, a.Tail, a.NextSeq
	p.attached, p.open = true, true
	p.queue = slices.DeleteFunc(p.queue, func(e *Append) bool {
		if len(e.Payload) <= layout.PayloadLimit(a.Capacity) {
			return false
		}
		e.Over, e.Err = true, ErrTooLarge
		p.over = append(p.over, e)
		return true
	})
	return p.over, nil
}

// finish says that the n oldest records are durable.
func (p *Producer) finish(n int) {
	seq := p.oldest()
	for i, e := range p.sent[:n] {
		e.Over, e.Seq = true, seq+uint64(i)
	}
	p.over = append(p.over, p.sent[:n]...)
	p.sent = slices.Delete(p.sent, 0, n)
}

// oldest is the number of the first record that is not acknowledged.
func (p *Producer) oldest() uint64 { return p.seq - uint64(len(p.sent)) }

func (p *Producer) check(a *Answer) error {
	bad := func(what string) error { return fmt.Errorf("%w: %s", ErrBadAnswer, what) }
	switch {
	case layout.CheckCapacity(a.Capacity) != nil:
		return bad("capacity")
	case a.Mode != layout.Strict && a.Mode != layout.WAL, a.Hash != layout.CRC32C && a.Hash != layout.SHA256:
		return bad("mode or hash")
	case a.Head%layout.Align != 0 || a.Tail%layout.Align != 0 || a.Tail < a.Head || a.Tail-a.Head > a.Capacity:
		return bad("head and tail")
	case a.NextSeq == 0 || a.Epoch == 0:
		return bad("epoch or sequence number")
	case a.LastEpoch >= a.Epoch, a.NextSeq > 1 && a.LastEpoch == 0:
		return bad("epoch of the last record")
	case !p.attached:
		return nil
	case a.ID != p.id || a.Epoch <= p.epoch || a.NextSeq < p.oldest() || a.NextSeq > p.seq:
		return fmt.Errorf("%w: next record %d of epoch %d, want %d to %d after epoch %d",
			ErrLostRecords, a.NextSeq, a.Epoch, p.oldest(), p.seq, p.epoch)
	case a.LastEpoch > p.epoch && !mutant.Is(mutant.AnyEpoch): // what is unanswered is of p.epoch
		return fmt.Errorf("%w: record %d is of epoch %d, behind ours, %d", ErrLostRecords, a.NextSeq-1, a.LastEpoch, p.epoch)
	case a.Capacity != p.capacity:
		return bad("another capacity")
	}
	return nil
}

// Lost is told that the session has ended. What is on its way stays as it is until Open.
func (p *Producer) Lost() { p.open = false }

// Add queues e. Before the first answer any size is taken, and checked by it.
func (p *Producer) Add(e *Append) error {
	if p.attached && len(e.Payload) > layout.PayloadLimit(p.capacity) || len(e.Payload) > layout.MaxPayload {
		return ErrTooLarge
	}
	p.queue = append(p.queue, e)
	return nil
}

// Abandon ends the interest in e. It reports whether e was taken out of the queue: then
// it will never be appended. Otherwise it may have been, or will be, and its payload
// has been copied.
func (p *Producer) Abandon(e *Append) bool {
	if i := slices.Index(p.queue, e); i >= 0 && !e.assigned {
		p.queue = slices.Delete(p.queue, i, i+1)
		return true
	}
	e.Payload = slices.Clone(e.Payload)
	return false
}

// Next returns the next batch to be sent, nil if there is none now.
func (p *Producer) Next() *Batch {
	if !p.open || len(p.flight) >= p.InFlight || len(p.queue) == 0 || p.Blocked() || !p.worth() {
		return nil
	}
	b := p.batch()
	octets := 0
	for _, e := range p.queue {
		size := layout.RecordSize(len(e.Payload))
		if b.count > 0 && octets+int(size) > p.Batch || !p.fits(p.tail, size) {
			break
		}
		p.put(b, e, size)
		octets += int(size)
	}
	p.queue = slices.Delete(p.queue, 0, b.count)
	b.octets = octets
	b.ops(p, p.tail)
	p.flight = append(p.flight, b)
	return b
}

// worthwhile is how many octets make a batch of their own in any case: to place and flush
// as many takes so long that the peer should have the next ones by then.
const worthwhile = 64 << 10

// worth reports whether what is queued makes a batch of its own while others are
// unanswered: if it is larger than the one before it, or large. Else it waits for that one,
// and goes out together with what those append next who are waiting for it: each batch
// is a flush, and few appends in two of them are slower than all in one.
func (p *Producer) worth() bool {
	n := len(p.flight)
	if n == 0 {
		return true
	}
	octets := 0
	for _, e := range p.queue {
		octets += int(layout.RecordSize(len(e.Payload)))
		if octets > p.flight[n-1].octets || octets >= min(worthwhile, p.Batch) {
			return true
		}
	}
	return false
}

// Queued returns how many appends have no place yet.
func (p *Producer) Queued() int { return len(p.queue) }

// put gives e the next place, for which there is room, behind a filler if it would cross the
// end of the ring. What has room in the ring crosses its end once, so two runs are enough.
func (p *Producer) put(b *Batch, e *Append, size uint64) {
	if end := layout.ToEnd(p.tail, p.capacity); end < size {
		r := b.run(p)
		r.data = layout.AppendFiller(r.data, p.salt, p.epoch, p.seq, end)
		p.tail += end
	}
	r := b.run(p)
	r.data = layout.AppendRecord(r.data, p.salt, p.epoch, p.seq, e.Payload)
	p.tail += size
	p.seq++
	b.count++
	e.assigned = true
	p.sent = append(p.sent, e)
}

// run returns the run that what stands at the tail belongs to.
func (b *Batch) run(p *Producer) *run {
	off := layout.Ring(p.tail, p.capacity)
	if b.nruns == 0 || off == 0 {
		r := &b.runs[b.nruns]
		r.off, r.data = off, r.data[:0]
		b.nruns++
		return r
	}
	return &b.runs[b.nruns-1]
}

func (p *Producer) batch() *Batch {
	if n := len(p.spare); n > 0 {
		b := p.spare[n-1]
		p.spare = p.spare[:n-1]
		b.nruns, b.count = 0, 0
		return b
	}
	return new(Batch)
}

// Done is told that the last operation of b was answered. It returns the appends that
// are over. A batch of a session that has ended does nothing.
func (p *Producer) Done(b *Batch) []*Append {
	if !p.open || len(p.flight) == 0 || p.flight[0] != b {
		return nil
	}
	p.flight = slices.Delete(p.flight, 0, 1)
	p.over = p.over[:0]
	p.finish(b.count)
	p.spare = append(p.spare, b)
	return p.over
}

// Fail ends all appends with err: there will be no further session.
func (p *Producer) Fail(err error) []*Append {
	over := append(p.sent, p.queue...)
	for _, e := range over {
		e.Over, e.Err = true, err
	}
	p.open, p.sent, p.queue = false, nil, nil
	return over
}

// Epoch returns the epoch of the session.
func (p *Producer) Epoch() uint32 { return p.epoch }
