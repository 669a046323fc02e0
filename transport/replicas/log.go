package replicas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/transport/commitlog"
	"go.uber.org/zap"
)

// Errors of a Log.
var (
	// ErrClosed: the Log is closed.
	ErrClosed = errors.New("replicas: closed")
	// ErrMajority: too few replicas can be reached.
	ErrMajority = errors.New("replicas: no majority of the replicas can be reached")
	// ErrBehind: more octets wait for a majority, or for a slow replica, than Options.Behind.
	ErrBehind = errors.New("replicas: too much is waiting for the replicas (append again later)")
	// ErrTrimmed: the entry is not needed any more, by Trim.
	ErrTrimmed = errors.New("replicas: the entry was trimmed")
)

// Options has the settings of a Log. Nil and zero fields mean the defaults.
type Options struct {
	// Behind limits the octets that wait for the slowest replica that is not left out. If zero, 64 MiB.
	Behind int
	// Step is how long it may take to open a replica, and to complete it. Late is how long Open waits for the other
	// replicas when a majority is there. If zero, 10 s and 1 s.
	Step, Late time.Duration
	// Retry is how long to wait before a replica that has failed is tried again. If zero, 1 s.
	Retry time.Duration
	// Logger gets a line per replica that fails or comes back. If nil, nothing is logged.
	Logger *zap.Logger
}

// fill returns a checked copy of o with the defaults in place.
func (o *Options) fill() (Options, error) {
	var f Options
	if o != nil {
		f = *o
	}
	err := setting.Check(
		setting.Count("Behind", f.Behind),
		setting.Time("Step", f.Step), setting.Time("Late", f.Late), setting.Time("Retry", f.Retry),
	)
	if err != nil {
		return f, fmt.Errorf("replicas: %w", err)
	}
	f.Behind = cmp.Or(f.Behind, 64<<20)
	f.Step = cmp.Or(f.Step, 10*time.Second)
	f.Late = cmp.Or(f.Late, time.Second)
	f.Retry = cmp.Or(f.Retry, time.Second)
	if f.Logger == nil {
		f.Logger = zap.NewNop()
	}
	return f, nil
}

// Log is the producer of a replicated log.
type Log struct {
	opt    Options
	ctx    context.Context // ends with Close, and with a final error
	cancel context.CancelFunc
	wg     sync.WaitGroup
	term   uint64

	mu      sync.Mutex
	work    *sync.Cond // something to wait for, or an end
	moved   chan struct{}
	reps    []*replica
	last    uint64 // index of the last entry
	commit  uint64 // durable at a majority
	first   uint64
	tail    []entry // up to last: entries that not all replicas have that take part or are being completed
	waiting int     // octets of tail
	err     error
}

// entry is an entry that is kept for replicas that do not have it yet.
type entry struct {
	index  uint64
	record []byte
}

// replica is one of the logs. Guarded by Log.mu.
type replica struct {
	Replica
	n int
	// turn is held from Open until the replica takes part, or its session is closed: an Open that comes late
	// must not fence the next one.
	turn    sync.Mutex
	s       Session // nil: left out
	acked   uint64  // has all entries up to here, durably
	needs   uint64  // while it is being completed: entries above this stay in Log.tail
	pending []flying
}

// nothing is replica.needs while the replica is not being completed.
const nothing = math.MaxUint64

// flying is an append in progress.
type flying struct {
	index uint64 // 0: not an entry
	p     *commitlog.Pending
}

// Term returns the term of l: higher than that of every producer that it has fenced.
func (l *Log) Term() uint64 { return l.term }

// Bounds returns the index of the oldest entry that is kept and that of the last one that is durable at a majority.
// The log is empty if last is below first.
func (l *Log) Bounds() (first, last uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first, l.commit
}

// Live returns how many replicas take part.
func (l *Log) Live() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.reps {
		if r.s != nil {
			n++
		}
	}
	return n
}

// Append appends an entry and returns its index when it is durable at a majority. While there is no room there, it waits for
// Trim. If ctx ends first, the entry may be in the log now or later. Other errors: commitlog.ErrTooLarge, ErrFenced, ErrBehind,
// ErrClosed.
func (l *Log) Append(ctx context.Context, payload []byte) (index uint64, err error) {
	index, err = l.begin(payload)
	if err != nil {
		return 0, err
	}
	return index, l.wait(ctx, index)
}

func (l *Log) begin(payload []byte) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	size := headLen + len(payload)
	switch {
	case l.err != nil:
		return 0, l.err
	case slices.ContainsFunc(l.reps, func(r *replica) bool { return r.s != nil && r.s.Limit() < size }):
		return 0, commitlog.ErrTooLarge // once appended, it would have to be at all of them
	case len(l.tail) > 0 && l.waiting+size > l.opt.Behind && l.tail[0].index > l.commit:
		return 0, ErrBehind
	case len(l.tail) > 0 && l.waiting+size > l.opt.Behind: // a majority does not wait for the slowest
		for _, r := range l.reps {
			if r.s != nil && r.acked < l.tail[0].index {
				l.drop(r, ErrBehind)
			}
			if r.needs < l.tail[0].index {
				r.needs = nothing // its completion finds that out
			}
		}
		l.count()
	}
	l.last++
	e := entry{l.last, encode(kindEntry, l.last, 0, payload)}
	l.tail, l.waiting = append(l.tail, e), l.waiting+size
	l.send(e.index, e.record)
	return l.last, nil
}

// send appends a record at all live replicas. The caller holds l.mu.
func (l *Log) send(index uint64, record []byte) {
	for _, r := range l.reps {
		l.sendTo(r, index, record)
	}
}

// sendTo appends a record at a replica, if it takes part. The caller holds l.mu.
func (l *Log) sendTo(r *replica, index uint64, record []byte) {
	if r.s == nil {
		return
	}
	p, err := r.s.Begin(record)
	if err != nil {
		l.drop(r, err)
		return
	}
	r.pending = append(r.pending, flying{index, p})
	l.work.Broadcast()
}

// wait waits until index is durable at a majority.
func (l *Log) wait(ctx context.Context, index uint64) error {
	for {
		l.mu.Lock()
		done, err, moved := l.commit >= index, l.err, l.moved
		l.mu.Unlock()
		switch {
		case done:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// follow waits for the appends at r, as long as its session is s.
func (l *Log) follow(r *replica, s Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r.s == s && l.err == nil {
		if len(r.pending) == 0 {
			l.work.Wait()
			continue
		}
		f := r.pending[0]
		l.mu.Unlock()
		_, err := f.p.Wait(context.Background()) // until the session ends, and all of its appends with it
		l.mu.Lock()
		if r.s != s || l.err != nil {
			return
		}
		if err != nil {
			l.drop(r, err)
			return
		}
		r.pending = r.pending[1:]
		if f.index > 0 {
			r.acked = f.index
			l.count()
		}
	}
}

// count finds what is durable at a majority, and forgets what all live replicas have. The caller holds l.mu.
func (l *Log) count() {
	acked := make([]uint64, 0, len(l.reps))
	all := l.last
	for _, r := range l.reps {
		acked, all = append(acked, r.acked), min(all, r.needs)
		if r.s != nil {
			all = min(all, r.acked)
		}
	}
	slices.Sort(acked)
	commit := acked[(len(acked)-1)/2] // so many, and one more, have at least this
	if commit > l.commit {
		l.commit = commit
		close(l.moved)
		l.moved = make(chan struct{})
	}
	for len(l.tail) > 0 && l.tail[0].index <= min(all, l.commit) {
		l.waiting -= len(l.tail[0].record)
		l.tail = l.tail[1:]
	}
}

// drop leaves a replica out, until it can be completed. The caller holds l.mu.
func (l *Log) drop(r *replica, err error) {
	s := r.s
	r.s, r.pending = nil, nil
	l.work.Broadcast()
	if serr := s.Err(); serr != nil {
		err = serr
	}
	l.opt.Logger.Warn("replicas: left out", zap.Int("replica", r.n), zap.Error(err))
	if errors.Is(err, ErrFenced) {
		l.fail(err)
	}
	l.wg.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), l.opt.Step)
		defer cancel()
		_ = s.Close(ctx) // it has ended
		l.rejoin(r)
	})
}

// fail ends l for good. The caller holds l.mu.
func (l *Log) fail(err error) {
	if l.err == nil {
		l.err = err
		l.cancel()
		close(l.moved)
		l.moved = make(chan struct{})
		l.work.Broadcast()
	}
}

// Trim says that the entries below first are not needed any more. It returns at once.
func (l *Log) Trim(first uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
		return l.err
	case first <= l.first:
		return nil
	case first > l.commit+1:
		return fmt.Errorf("replicas: entry %d is not durable at a majority yet", first-1)
	}
	l.first = first
	l.send(0, encode(kindTrim, first, l.term, nil))
	return nil
}

// best returns the replica that has most, and so answers best; nil if none takes part. The caller holds l.mu.
func (l *Log) best() (best *replica) {
	for _, r := range l.reps {
		if r.s != nil && (best == nil || r.acked >= best.acked) {
			best = r
		}
	}
	return best
}

// Read calls visit with the entries from index from on (0: from the oldest one) that are durable at a majority. The payload
// belongs to visit, whose error ends Read. A replica that does not answer is left out, and another one read. Other
// errors: ErrTrimmed, ErrMajority, and those of reading.
func (l *Log) Read(ctx context.Context, from uint64, visit func(index uint64, payload []byte) error) error {
	l.mu.Lock()
	first, upto, err := l.first, l.commit, l.err
	l.mu.Unlock()
	switch {
	case err != nil:
		return err
	case from == 0:
		from = first
	case from < first:
		return ErrTrimmed
	}
	var own error
	for {
		r, s, err := l.whole(upto)
		if err != nil {
			return err
		}
		err = read(ctx, s, from, upto, func(index uint64, payload []byte) error {
			from, own = index+1, visit(index, payload)
			return own
		})
		if err == nil || own != nil || errors.Is(err, ErrTrimmed) || ctx.Err() != nil {
			return err
		}
		l.mu.Lock()
		if r.s == s {
			l.drop(r, err)
		}
		l.mu.Unlock()
	}
}

// whole returns a replica that has all entries up to index, and its session.
func (l *Log) whole(index uint64) (*replica, Session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.best()
	switch {
	case l.err != nil:
		return nil, nil, l.err
	case r == nil || r.acked < index:
		return nil, nil, ErrMajority
	}
	return r, r.s, nil
}

// read calls visit with the entries of a replica.
func read(ctx context.Context, s Session, from, upto uint64, visit func(index uint64, payload []byte) error) error {
	st, err := replay(ctx, s)
	switch {
	case err != nil:
		return err
	case from < st.first:
		return ErrTrimmed
	}
	return st.entries(ctx, s, from, upto, func(index uint64, record []byte) error { return visit(index, record[headLen:]) })
}

// Close ends the sessions. Appends in progress return ErrClosed; their entries may be in the log.
func (l *Log) Close(ctx context.Context) error {
	l.mu.Lock()
	l.fail(ErrClosed)
	var ss []Session
	for _, r := range l.reps {
		if r.s != nil {
			ss = append(ss, r.s)
			r.s, r.pending = nil, nil
		}
	}
	l.work.Broadcast()
	l.mu.Unlock()
	var errs []error
	for _, s := range ss {
		errs = append(errs, s.Close(ctx))
	}
	l.wg.Wait()
	return errors.Join(errs...)
}
