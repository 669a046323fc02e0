package pushwrite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stag-rdma/stag/internal/mutant"
	"github.com/stag-rdma/stag/nfsdemo/internal/lease"
	"github.com/stag-rdma/stag/nfsdemo/internal/pushfile"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
	"go.uber.org/zap"
)

// Limits of a batch: what one log may have applied before the next log's turn.
const (
	batchRecords = 256
	batchOctets  = 4 << 20
)

// defaultLinger is how long a batch that nobody waits for may wait for more records, because a batch
// costs flushes of the files and of the head. lingerStep is how often it checks whether it already takes
// too much of the ring.
const (
	defaultLinger = 250 * time.Millisecond
	lingerStep    = 10 * time.Millisecond
)

// retryMin and retryMax limit the time between two attempts to apply a record.
const (
	retryMin = 20 * time.Millisecond
	retryMax = 2 * time.Second
)

// Blocked is a record that cannot be applied, and why.
type Blocked struct {
	Log    string
	Record uint64 // its number; 0: the log cannot be read
	Lease  uint64 // the lease that it names
	Err    error
	Since  time.Time
	File   string // the log's file; "": Config.Store keeps the log
	Remedy string // what an operator can do
}

// status returns the status that NFS operations get because of it.
func (b *Blocked) status() (nfs3.Status, bool) {
	if st, ok := errors.AsType[nfs3.Status](b.Err); ok {
		return st, true
	}
	return nfs3.ErrIO, false
}

// applier applies one log.
type applier struct {
	s     *Server
	l     *log
	batch []*commitlog.Record
	end   uint64            // position after the batch
	next  *commitlog.Record // the record after the batch; nil: none yet
	delay time.Duration     // until the batch is tried again

	joined []byte // buffer for records that are written as one
}

// consume applies the records of a log until ctx ends, or until no more of them can be applied.
func (s *Server) consume(ctx context.Context, p *push.Log) {
	s.mu.Lock()
	l := s.logOf(p)
	s.mu.Unlock()
	defer l.settled()
	for a := (&applier{s: s, l: l}); ctx.Err() == nil; {
		err := a.round(ctx)
		if err != nil && !a.survive(ctx, err) {
			return
		}
	}
}

// round applies a batch, or as much of it as possible.
func (a *applier) round(ctx context.Context) error {
	if len(a.batch) == 0 {
		if err := a.gather(ctx); err != nil {
			return err
		}
	}
	if err := a.turn(ctx); err != nil {
		return err
	}
	defer func() { <-a.s.turns }()
	return a.apply()
}

// turn waits for a turn. Turns are given in the order of arrival.
func (a *applier) turn(ctx context.Context) error {
	a.s.ctr.queued.Add(1)
	defer a.s.ctr.queued.Add(-1)
	select {
	case a.s.turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// gather waits for records and takes those of the next batch.
func (a *applier) gather(ctx context.Context) error {
	behind := a.next != nil // the last batch was full: somebody may wait for the rest
	if err := a.fill(); err != nil {
		return err
	}
	if len(a.batch) == 0 {
		a.s.progress(a.l, a.end, nil)
		a.l.settled()
		var err error
		if a.next, err = a.l.p.Next(ctx); err != nil {
			return err
		}
		if err := a.fill(); err != nil {
			return err
		}
	}
	if behind || a.next != nil || !a.l.isSettled() {
		return nil
	}
	return a.wait(ctx)
}

// wait waits for more records, if nobody waits for the batch.
func (a *applier) wait(ctx context.Context) error {
	for waited := time.Duration(0); waited < a.s.cfg.linger && !a.crowded(); waited += lingerStep {
		select {
		case <-a.l.rush:
			return a.fill()
		case <-time.After(lingerStep):
		case <-ctx.Done():
			return a.fill()
		}
	}
	return a.fill()
}

// crowded reports whether the records that wait to be applied take a quarter of the ring.
func (a *applier) crowded() bool {
	return a.l.p.Tail()-a.batch[0].Pos > a.l.p.Info().Capacity/4
}

// fill takes the records there are, up to a batch, and notes where they end.
func (a *applier) fill() error {
	octets := 0
	for _, r := range a.batch {
		octets += len(r.Payload)
	}
	for {
		if a.next == nil {
			tail := a.l.p.Tail() // all records before it can be found now
			rec, err := a.l.p.TryNext()
			if p, ok := errors.AsType[*commitlog.PoisonError](err); ok && len(a.batch) > 0 {
				a.end = p.Pos
				return nil // first apply the records before
			}
			if err != nil {
				return err
			}
			if rec == nil {
				a.end = tail
				return nil
			}
			a.next = rec
		}
		if len(a.batch) == batchRecords || octets >= batchOctets {
			a.end = a.next.Pos
			return nil
		}
		octets += len(a.next.Payload)
		a.batch, a.next = append(a.batch, a.next), nil
	}
}

// writings are the writes to a file that must be made durable.
type writings struct {
	g    *server.Grant
	verf nfs3.WriteVerf
}

// apply writes the batch to the files, up to the first record that cannot be written, makes that
// durable, and releases the records.
func (a *applier) apply() error {
	wrote := make(map[file]*writings)
	n := 0
	var failed error
	for n < len(a.batch) && failed == nil {
		var k int
		if k, failed = a.write(a.batch[n:], wrote); failed != nil && mutant.Is(mutant.ErrorSkipped) {
			k, failed = 1, nil
		}
		n += k
	}
	if n == 0 {
		return failed
	}
	if !mutant.Is(mutant.ReleaseFirst) {
		if err := a.sync(wrote); err != nil {
			return err
		}
	}
	if err := a.l.p.Release(a.batch[n-1].Seq); err != nil {
		return &lostError{err}
	}
	end := a.end
	if n < len(a.batch) {
		end = a.batch[n].Pos
	}
	a.s.progress(a.l, end, a.batch[:n])
	a.batch, a.delay = append(a.batch[:0], a.batch[n:]...), 0
	return failed
}

// admit returns the file to which a record at pos may be written.
func (s *Server) admit(l *log, rec *pushfile.Record, pos uint64) (file, *grant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.grants[lease.ID(rec.Lease)]
	if mutant.Is(mutant.NotValidated) && g != nil {
		return file(g.Grant.File), g, nil
	}
	f, err := s.table.Admit(l.n, lease.ID(rec.Lease), pos+1) // a record lies before the tail that it has advanced
	return f, g, err
}

// errVerf: a sync has failed meanwhile, perhaps somebody else's, and writes were lost.
var errVerf = fmt.Errorf("pushwrite: the file system has lost writes (they will be repeated): %w", nfs3.ErrIO)

// sync makes the writes durable.
func (a *applier) sync(wrote map[file]*writings) error {
	for _, w := range wrote {
		verf, err := a.s.files.SyncGrant(w.g)
		if err != nil {
			return err
		}
		if verf != w.verf {
			return errVerf
		}
	}
	return nil
}

// forgedError is a record that no client may write.
type forgedError struct{ err error }

func (e *forgedError) Error() string {
	return "pushwrite: record that no client may write: " + e.err.Error()
}
func (e *forgedError) Unwrap() error { return e.err }

// lostError reports a log whose memory has failed.
type lostError struct{ err error }

func (e *lostError) Error() string { return "pushwrite: the log cannot be read: " + e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// survive handles an error and reports whether the log can continue. A record that cannot be applied
// is tried again after a while.
func (a *applier) survive(ctx context.Context, err error) bool {
	poison, poisoned := errors.AsType[*commitlog.PoisonError](err)
	_, forged := errors.AsType[*forgedError](err)
	switch {
	case ctx.Err() != nil:
		return false
	case poisoned:
		a.s.condemn(a.l, poison.Pos, poison.Seq, err)
		return false
	case forged:
		a.s.condemn(a.l, a.batch[0].Pos, a.batch[0].Seq, fmt.Errorf("record %d: %w", a.batch[0].Seq, err))
		return false
	case len(a.batch) == 0:
		err = &lostError{err}
	}
	b := &Blocked{Log: a.l.name, Err: err, Since: time.Now()}
	_, lost := errors.AsType[*lostError](err)
	if !lost {
		b.Record = a.batch[0].Seq
		rec, _ := pushfile.ParseRecord(a.batch[0].Payload) // parsed without error before
		b.Lease = rec.Lease
	}
	a.s.block(a.l, b)
	a.l.settled()
	if lost {
		return false
	}
	a.delay = min(max(2*a.delay, retryMin), retryMax)
	select {
	case <-time.After(a.delay):
	case <-ctx.Done():
	}
	return true
}

// progress notes that the records of a log before end have been applied; records are the last of them.
func (s *Server) progress(l *log, end uint64, records []*commitlog.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range records {
		l.seq = r.Seq
		s.ctr.records.Add(1)
		s.ctr.octets.Add(uint64(len(r.Payload) - pushfile.RecordHead))
		rec, _ := pushfile.ParseRecord(r.Payload) // parsed without error before
		if g := s.grants[lease.ID(rec.Lease)]; g != nil {
			g.reserved -= min(g.reserved, uint64(len(rec.Data)))
		}
	}
	if end <= l.applied {
		return
	}
	if l.blocked != nil {
		s.log.Info("pushwrite: records applied again", zap.String("log", l.name))
	}
	l.applied, l.blocked = end, nil
	s.do(s.table.Applied(l.n, end))
	s.move()
}

// block notes that the next record of a log cannot be applied.
func (s *Server) block(l *log, b *Blocked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blockLocked(l, b)
}

// blockLocked is block for a caller that holds s.mu.
func (s *Server) blockLocked(l *log, b *Blocked) {
	s.advise(b)
	switch was := l.blocked; {
	case was == nil:
		s.ctr.blocked.Add(1)
		s.log.Error("pushwrite: record not applied", zap.String("log", l.name), zap.Uint64("record", b.Record),
			zap.Uint64("lease", b.Lease), zap.Error(b.Err), zap.String("file", b.File), zap.String("remedy", b.Remedy))
	case was.Record == b.Record:
		b.Since = was.Since
	}
	l.blocked = b
	s.do(s.table.Failed(l.n, b.Err))
	s.move()
}

// move wakes those who wait for whole logs. The caller holds s.mu.
func (s *Server) move() {
	close(s.moved)
	s.moved = make(chan struct{})
}
