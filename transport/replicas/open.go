package replicas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stag-rdma/stag/transport/commitlog"
	"go.uber.org/zap"
)

// joining is a replica whose session has begun, and what it holds.
type joining struct {
	r  *replica
	s  Session
	st *state
}

// Open takes over the log. It returns when a majority of the replicas have the same log, and the term has begun there;
// the others are completed later. ctx limits only Open. Errors: ErrMajority with the errors of the replicas, ErrFenced if
// another producer takes over meanwhile, and for o one that wraps rpc.ErrConfig.
func Open(ctx context.Context, rs []Replica, o *Options) (*Log, error) {
	opt, err := o.fill()
	if err != nil {
		return nil, err
	}
	l := &Log{opt: opt, moved: make(chan struct{})}
	l.work = sync.NewCond(&l.mu)
	l.ctx, l.cancel = context.WithCancel(context.Background())
	for n, r := range rs {
		l.reps = append(l.reps, &replica{Replica: r, n: n, needs: nothing})
	}
	if err := l.takeOver(ctx); err != nil {
		l.mu.Lock()
		l.fail(err)
		l.mu.Unlock()
		l.wg.Wait()
		return nil, err
	}
	return l, nil
}

// majority is how many replicas decide.
func (l *Log) majority() int { return len(l.reps)/2 + 1 }

func (l *Log) takeOver(ctx context.Context) error {
	defer context.AfterFunc(ctx, l.cancel)()
	var in []*joining
	for _, r := range l.reps {
		in = append(in, &joining{r: r})
	}
	// What a replica holds is read after its fence: then nobody changes it any more.
	in, err := l.each(in, func(ctx context.Context, j *joining) (err error) {
		j.r.turn.Lock()
		if j.s, err = j.r.Open(ctx); err == nil {
			j.st, err = replay(ctx, j.s)
		}
		return err
	})
	if err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	best, first := in[0], uint64(1)
	for _, j := range in {
		l.term, first = max(l.term, j.st.claim+1), max(first, j.st.first)
		if b := best.st; j.st.label > b.label || j.st.label == b.label && j.st.last() > b.last() {
			best = j
		}
	}
	source := *best.st
	source.trim(first) // only what is durable at a majority is trimmed
	// The claim is durable at a majority before anything is written in the term. Of two producers that take over
	// at the same time, the one that came later to a replica of both has read the claim of the other there, so that
	// no term has two producers.
	if in, err = l.each(in, func(ctx context.Context, j *joining) error {
		return put(ctx, j.s, encode(kindClaim, l.term, 0, nil))
	}); err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	// Nothing old counts as durable before the term has begun at a majority: until then somebody may take the log of a
	// term between.
	if in, err = l.each(in, func(ctx context.Context, j *joining) error {
		_, err := l.complete(ctx, j, best.s, &source)
		return err
	}); err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.first, l.last, l.commit = source.first, source.last(), source.last()
	there := make(map[*replica]bool)
	for _, j := range in {
		there[j.r] = true
		l.admit(j, l.last)
	}
	for _, r := range l.reps {
		if !there[r] {
			l.wg.Go(func() { l.rejoin(r) })
		}
	}
	return nil
}

// each does something with the replicas at the same time, and returns those where it worked, which must be a majority. It
// does not wait long for the last ones. The sessions of the others are closed.
func (l *Log) each(in []*joining, f func(context.Context, *joining) error) (ok []*joining, err error) {
	type result struct {
		j   *joining
		err error
	}
	done := make(chan result, len(in))
	ctx, cancel := context.WithTimeout(l.ctx, l.opt.Step)
	defer cancel() // also those that are late
	for _, j := range in {
		go func() { done <- result{j, f(ctx, j)} }()
	}
	errs := []error{ErrMajority}
	left := len(in)
	var late <-chan time.Time
	for left > 0 {
		if len(ok) >= l.majority() && late == nil {
			late = time.After(l.opt.Late)
		}
		select {
		case r := <-done:
			left--
			if r.err == nil {
				ok = append(ok, r.j)
				continue
			}
			errs = append(errs, fmt.Errorf("replica %d: %w", r.j.r.n, r.err))
			l.leave(r.j)
			continue
		case <-late:
		}
		rest := left
		left = 0
		l.wg.Go(func() {
			for range rest {
				l.leave((<-done).j)
			}
		})
	}
	if len(ok) < l.majority() {
		for _, j := range ok {
			l.leave(j)
		}
		return nil, errors.Join(errs...)
	}
	return ok, nil
}

// leave closes the session of a replica that does not take part.
func (l *Log) leave(j *joining) {
	if j.s == nil {
		j.r.turn.Unlock()
		return
	}
	l.wg.Go(func() {
		defer j.r.turn.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), l.opt.Step)
		defer cancel()
		_ = j.s.Close(ctx) // it is not needed
	})
}

// admit lets a replica take part that has the entries up to last. The caller holds l.mu.
func (l *Log) admit(j *joining, last uint64) {
	j.r.s, j.r.acked = j.s, last
	j.r.turn.Unlock()
	l.wg.Go(func() { l.follow(j.r, j.s) })
}

// replay reads what a replica holds.
func replay(ctx context.Context, s Session) (*state, error) {
	for {
		st := &state{first: 1}
		err := s.Read(ctx, st.apply)
		if _, again := errors.AsType[*commitlog.ReleasedError](err); !again || ctx.Err() != nil { // trimmed while it was read
			return st, err
		}
	}
}

// entries calls visit with the records of the entries from index from to index upto.
func (s *state) entries(ctx context.Context, in Session, from, upto uint64, visit func(index uint64, record []byte) error) error {
	from, upto = max(from, s.first), min(upto, s.last())
	next := from
	err := in.Read(ctx, func(r *commitlog.Record) error {
		if next > upto || r.Seq != s.at(next).seq {
			return nil
		}
		if sumOf(r.Payload) != s.at(next).sum {
			return fmt.Errorf("%w: record %d has changed", ErrRecord, r.Seq)
		}
		next++
		return visit(next-1, r.Payload)
	})
	if _, ok := errors.AsType[*commitlog.ReleasedError](err); ok || err == nil && next <= upto {
		err = ErrTrimmed // while it was read
	}
	return err
}

// mostPut is how many records of a completion are in progress at a time.
const mostPut = 64

// feed appends records to a replica that is being completed.
type feed struct {
	s      Session
	flying []*commitlog.Pending
}

func (f *feed) put(ctx context.Context, record []byte) error {
	p, err := f.s.Begin(record)
	if err != nil {
		return cmp.Or(f.s.Err(), err)
	}
	f.flying = append(f.flying, p)
	return f.settle(ctx, mostPut-1)
}

// settle waits until at most n records are in progress. If ctx ends first, the session ends: a record that is given up
// alone would be missing before the others.
func (f *feed) settle(ctx context.Context, n int) error {
	if len(f.flying) <= n {
		return nil
	}
	defer context.AfterFunc(ctx, func() { _ = f.s.Close(ctx) })()
	for len(f.flying) > n {
		p := f.flying[0]
		f.flying = f.flying[1:]
		if _, err := p.Wait(context.Background()); err != nil {
			return cmp.Or(f.s.Err(), err)
		}
	}
	return nil
}

// put appends a record, durably.
func put(ctx context.Context, s Session, record []byte) error {
	f := feed{s: s}
	return cmp.Or(f.put(ctx, record), f.settle(ctx, 0))
}

// complete makes the log of j that of from, of which src is a session, begins the term there, and returns the index of
// its last entry.
func (l *Log) complete(ctx context.Context, j *joining, src Session, from *state) (last uint64, err error) {
	f := feed{s: j.s}
	have, again := j.st.common(from)
	if j.st.label == l.term { // what it has are entries of l, perhaps more than src has: they count, and stay
		have, again = j.st.last(), j.st.last()+1 < from.first
	}
	switch {
	case again:
		if err = f.put(ctx, encode(kindCut, 0, 0, nil)); err == nil && len(from.kept) == 0 {
			err = f.put(ctx, encode(kindTrim, from.first, l.term, nil)) // there is no entry that would say where they begin
		}
		have = from.first - 1
	case have < j.st.last():
		err = f.put(ctx, encode(kindCut, have, 0, nil))
	}
	last = max(have, from.last())
	if err == nil && have < last {
		err = from.entries(ctx, src, have+1, last, func(_ uint64, record []byte) error { return f.put(ctx, record) })
	}
	if err == nil {
		err = f.put(ctx, encode(kindBegin, l.term, last, nil))
	}
	if err == nil && j.st.first < from.first {
		err = f.put(ctx, encode(kindTrim, from.first, l.term, nil))
	}
	return last, cmp.Or(err, f.settle(ctx, 0))
}

// rejoin completes a replica that was left out, as soon as that is possible.
func (l *Log) rejoin(r *replica) {
	for {
		select {
		case <-time.After(l.opt.Retry):
		case <-l.ctx.Done():
			return
		}
		j := &joining{r: r}
		r.turn.Lock()
		err := l.join(j)
		if err == nil {
			return
		}
		l.leave(j)
		l.opt.Logger.Info("replicas: not completed", zap.Int("replica", r.n), zap.Error(err))
		if errors.Is(err, ErrFenced) {
			l.mu.Lock()
			l.fail(err)
			l.mu.Unlock()
		}
	}
}

// join completes a replica and lets it take part. Nobody waits for it: entries are appended meanwhile, and kept for it.
func (l *Log) join(j *joining) (err error) {
	ctx, cancel := context.WithTimeout(l.ctx, l.opt.Step)
	defer cancel()
	if j.s, err = j.r.Open(ctx); err != nil {
		return err
	}
	if j.st, err = replay(ctx, j.s); err != nil {
		return err
	}
	if j.st.claim > l.term {
		return ErrFenced
	}
	if err := put(ctx, j.s, encode(kindClaim, l.term, 0, nil)); err != nil {
		return err
	}
	src, upto := l.hold(j)
	defer func() {
		if err != nil {
			l.letGo(j)
		}
	}()
	last, err := l.copy(ctx, j, src, upto)
	for err == nil {
		var some []entry
		if some, err = l.next(j, last); len(some) == 0 {
			return err
		}
		f := feed{s: j.s}
		for _, e := range some {
			err = cmp.Or(err, f.put(ctx, e.record))
		}
		last, err = some[len(some)-1].index, cmp.Or(err, f.settle(ctx, 0))
	}
	return err
}

// hold keeps all entries for j that are not at all replicas, and returns a session that has those up to upto, which come
// before: that of a replica that takes part, or, if there is none, that of j.
func (l *Log) hold(j *joining) (src Session, upto uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	upto = l.last - uint64(len(l.tail))
	j.r.needs = upto
	if r := l.best(); r != nil {
		return r.s, upto
	}
	return j.s, upto
}

// letGo ends hold.
func (l *Log) letGo(j *joining) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j.r.needs = nothing
	l.count()
}

// copy gives j the entries up to upto that are kept, and returns the index of its last one.
func (l *Log) copy(ctx context.Context, j *joining, src Session, upto uint64) (last uint64, err error) {
	if src == j.s {
		if j.st.label != l.term || j.st.last() < upto {
			return 0, ErrMajority // another replica has what is missing
		}
		return j.st.last(), nil
	}
	for {
		from, err := replay(ctx, src)
		switch {
		case err != nil:
			return 0, err
		case from.last() < upto:
			return 0, ErrMajority // it has ended
		}
		from.cut(max(upto, from.first-1))
		last, err := l.complete(ctx, j, src, from)
		if !errors.Is(err, ErrTrimmed) {
			return last, err
		}
		if j.st, err = replay(ctx, j.s); err != nil { // after upto entries were trimmed, nothing is left to copy
			return 0, err
		}
	}
}

// next returns what comes behind last, if that is much; otherwise it lets j take part, without waiting.
func (l *Log) next(j *joining, last uint64) ([]entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	base := l.last - uint64(len(l.tail))
	switch {
	case l.err != nil:
		return nil, l.err
	case j.r.needs == nothing || last < base:
		return nil, ErrBehind
	}
	j.r.needs = last
	some := l.tail[min(last-base, uint64(len(l.tail))):]
	if len(some) > mostPut {
		return slices.Clone(some[:mostPut]), nil
	}
	j.r.needs = nothing
	l.admit(j, last)
	for _, e := range some {
		l.sendTo(j.r, e.index, e.record)
	}
	if l.first > 1 {
		l.sendTo(j.r, 0, encode(kindTrim, l.first, l.term, nil))
	}
	l.opt.Logger.Info("replicas: completed", zap.Int("replica", j.r.n), zap.Uint64("entry", l.last))
	return nil, nil
}
