package once

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/internal/once/internal/ledger"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// Errors.
var (
	// ErrNotPersistent: the memory is lost with the process, or does not report its errors.
	ErrNotPersistent = errors.New("once: a journal needs memory that is persistent and watched, such as that of package pmem")
	// ErrJournal: the log holds something else, or is damaged.
	ErrJournal = errors.New("once: not a journal, or damaged (move it away to start a new one; calls that were running may then run twice)")
	// ErrClosed: the journal is closed.
	ErrClosed = errors.New("once: closed")
)

// maxResults limits the results of a covered call, in octets. Those of NFS have at most 280.
const maxResults = 1 << 10

// maxState and maxArgs limit what an intent holds, in octets.
const (
	maxState = 8 << 10
	maxArgs  = 16 << 10
)

// Journal is a log of intents and replies. It is safe for concurrent use.
type Journal struct {
	mem   region.Memory
	owned bool // mem is closed with it
	log   *commitlog.Log
	p     *commitlog.Producer
	now   func() int64 // ns since 1970, see clock

	ctx context.Context // ends with the journal; its cause says why
	end context.CancelCauseFunc

	// order is held shared from a step of the ledger until the append of its record has
	// begun, and exclusively while records are written again. So no record is written again
	// after one that replaces it.
	order sync.RWMutex

	mu       sync.Mutex // taken after order
	led      *ledger.Ledger
	waiting  map[*ledger.Entry]chan struct{} // closed when the call has ended
	changed  chan struct{}                   // see change; nil if nobody waits
	sweeping bool
	sweeps   sync.WaitGroup
	held     *commitlog.Record  // for sweeps: the oldest record, if it was read but not passed
	open     []ledger.Unsettled // until New
	stats    Stats
}

// Create makes a journal that takes all of mem. Errors are those of commitlog.Create.
func Create(mem region.Memory) error { return commitlog.Create(mem, nil) }

// Open recovers the journal in mem, which it borrows until Close. It ignores Options.Capacity. Errors:
// ErrNotPersistent, ErrJournal, those of commitlog.Open.
func Open(mem region.Memory, o *Options) (*Journal, error) {
	watched, ok := mem.(region.Watched)
	if !ok {
		return nil, ErrNotPersistent
	}
	j := &Journal{
		mem: mem, p: commitlog.NewProducer(nil),
		waiting: make(map[*ledger.Entry]chan struct{}),
	}
	if err := j.recover(o.withDefaults()); err != nil {
		return nil, err
	}
	var err error
	if j.log, err = commitlog.Open(mem); err != nil {
		return nil, err
	}
	j.ctx, j.end = context.WithCancelCause(context.Background())
	if err := j.log.Local(j.ctx, j.p); err != nil {
		j.end(err)
		return nil, errors.Join(err, j.log.Close(context.Background()))
	}
	context.AfterFunc(j.ctx, j.p.Close)
	go j.watch(watched)
	return j, nil
}

// watch waits for the first error of the memory, which is final.
func (j *Journal) watch(mem region.Watched) {
	select {
	case <-mem.Failed():
		j.end(mem.Err())
	case <-j.ctx.Done():
	}
}

// recover reads the log before it is opened: records that the open log returns are for sweeps.
func (j *Journal) recover(o Options) error {
	v := ledger.Recover()
	info, err := commitlog.Inspect(octets{j.mem}, int64(len(j.mem.Bytes())), func(r *commitlog.Record) error {
		if err := v.Add(r.Payload); err != nil {
			return fmt.Errorf("%w: record %d: %w", ErrJournal, r.Seq, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if info.Poison != nil {
		return fmt.Errorf("%w: %w", ErrJournal, info.Poison)
	}
	j.now = clock(v.Last())
	j.led, j.open = v.End(ledger.Limits{
		Entries: o.Entries, PerAddr: max(o.Entries/share, 1), Time: int64(o.Time),
		Capacity: int(info.Capacity), MaxReply: maxResults,
	}, j.now())
	return nil
}

// clock returns the clock of a journal whose latest record was made at last. It does not jump when the
// system's clock is set, whether the server runs or not: otherwise replies would be forgotten too early,
// and calls would run twice.
func clock(last int64) func() int64 {
	began := time.Now()
	base := max(began.UnixNano(), last)
	return func() int64 { return base + int64(time.Since(began)) }
}

// octets reads memory that nobody changes.
type octets struct{ mem region.Memory }

func (o octets) ReadAt(p []byte, off int64) (int, error) {
	if g, ok := o.mem.(region.Guarded); ok {
		return len(p), g.Load(p, int(off))
	}
	return copy(p, o.mem.Bytes()[off:]), nil
}

// Err returns why the journal accepts no more calls, nil as long as it does.
func (j *Journal) Err() error { return context.Cause(j.ctx) }

// Close ends the journal: running calls are refused. Its records stay. The error is region.ErrPinned if
// ctx ends before the memory is free; then Close may be called again.
func (j *Journal) Close(ctx context.Context) error {
	j.mu.Lock() // from here on no sweep begins
	j.end(ErrClosed)
	j.mu.Unlock()
	j.sweeps.Wait()
	return j.release(ctx)
}
