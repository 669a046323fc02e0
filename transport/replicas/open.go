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
// another producer takes over meanwhile.
func Open(ctx context.Context, rs []Replica, o *Options) (*Log, error) {
	l := &Log{moved: make(chan struct{})}
	if o != nil {
		l.opt = *o
	}
	if l.opt.Behind <= 0 {
		l.opt.Behind = 64 << 20
	}
	if l.opt.Step <= 0 {
		l.opt.Step = 10 * time.Second
	}
	if l.opt.Late <= 0 {
		l.opt.Late = time.Second
	}
	if l.opt.Retry <= 0 {
		l.opt.Retry = time.Second
	}
	if l.opt.Logger == nil {
		l.opt.Logger = zap.NewNop()
	}
	l.work = sync.NewCond(&l.mu)
	l.ctx, l.cancel = context.WithCancel(context.Background())
	for n, r := range rs {
		l.reps = append(l.reps, &replica{Replica: r, n: n})
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
		return l.complete(ctx, j, best.s, &source, nil)
	}); err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.first, l.last, l.commit = source.first, source.last(), source.last()
	there := make(map[*replica]bool)
	for _, j := range in {
		there[j.r] = true
		l.admit(j)
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

// admit lets a replica take part that has all entries. The caller holds l.mu.
func (l *Log) admit(j *joining) {
	j.r.s, j.r.acked = j.s, l.last
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
		next++
		return visit(next-1, r.Payload)
	})
	if _, ok := errors.AsType[*commitlog.ReleasedError](err); ok || err == nil && next <= upto {
		err = ErrTrimmed // while it was read
	}
	return err
}

// put appends a record, durably.
func put(ctx context.Context, s Session, record []byte) error {
	p, err := s.Begin(record)
	if err == nil {
		_, err = p.Wait(ctx)
	}
	if err == nil {
		return nil
	}
	if serr := s.Err(); serr != nil {
		return serr
	}
	return err
}

// mostPut is how many records of a completion are in progress at a time.
const mostPut = 64

// complete makes the log of j that of from, of which src is a session, with tail behind it, and begins the term there.
func (l *Log) complete(ctx context.Context, j *joining, src Session, from *state, tail []entry) error {
	var flying []*commitlog.Pending
	send := func(record []byte) error {
		p, err := j.s.Begin(record)
		if err == nil {
			flying = append(flying, p)
		}
		for err == nil && len(flying) >= mostPut {
			_, err = flying[0].Wait(ctx)
			flying = flying[1:]
		}
		return err
	}
	want := *from
	want.kept = slices.Clone(from.kept)
	for _, e := range tail {
		if e.index == want.last()+1 {
			want.kept = append(want.kept, kept{sum: sumOf(e.record)})
		}
	}
	have, again := j.st.common(&want)
	var err error
	switch {
	case again:
		if err = send(encode(kindCut, 0, 0, nil)); err == nil && len(from.kept) == 0 {
			err = send(encode(kindTrim, from.first, l.term, nil)) // there is no entry that would say where they begin
		}
		have = from.first - 1
	case have < j.st.last():
		err = send(encode(kindCut, have, 0, nil))
	}
	if err == nil && have < from.last() {
		err = from.entries(ctx, src, have+1, from.last(), func(_ uint64, record []byte) error { return send(record) })
	}
	last := max(have, from.last())
	for _, e := range tail {
		if err == nil && e.index == last+1 {
			last, err = e.index, send(e.record)
		}
	}
	if err == nil {
		err = send(encode(kindBegin, l.term, last, nil))
	}
	if err == nil && j.st.first < from.first {
		err = send(encode(kindTrim, from.first, l.term, nil))
	}
	for _, p := range flying {
		if err == nil {
			_, err = p.Wait(ctx)
		}
	}
	if serr := j.s.Err(); err != nil && serr != nil {
		err = serr
	}
	return err
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
	// Most is copied while others append, the rest while nobody does.
	if err := l.copy(ctx, j); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if err := l.finish(ctx, j); err != nil {
		return err
	}
	l.admit(j)
	l.count()
	l.opt.Logger.Info("replicas: completed", zap.Int("replica", j.r.n), zap.Uint64("entry", l.last))
	return nil
}

// source returns a session that has all entries before tail: that of a live replica, or, if there is none, that of j. The
// caller holds l.mu.
func (l *Log) source(j *joining) Session {
	for _, r := range l.reps {
		if r.s != nil {
			return r.s
		}
	}
	return j.s
}

func (l *Log) copy(ctx context.Context, j *joining) error {
	l.mu.Lock()
	src := l.source(j)
	l.mu.Unlock()
	if src == j.s {
		return nil
	}
	from, err := replay(ctx, src)
	if err != nil {
		return err
	}
	if j.st.label == l.term && j.st.last() >= from.last() {
		return nil // it has entries that src may not have yet, and that must stay
	}
	if err := l.complete(ctx, j, src, from, nil); err != nil {
		return err
	}
	j.st, err = replay(ctx, j.s)
	return err
}

// finish gives j what it does not have yet. The caller holds l.mu.
func (l *Log) finish(ctx context.Context, j *joining) error {
	src, from := l.source(j), j.st
	if src != j.s {
		var err error
		if from, err = replay(ctx, src); err != nil {
			return err
		}
	} else if from.label != l.term {
		return ErrMajority // it has missed the beginning of the term
	}
	if from.last() < l.last-uint64(len(l.tail)) {
		return ErrMajority // another replica has what is missing
	}
	if err := l.complete(ctx, j, src, from, l.tail); err != nil {
		return err
	}
	if j.st.first < l.first {
		return put(ctx, j.s, encode(kindTrim, l.first, l.term, nil))
	}
	return nil
}
