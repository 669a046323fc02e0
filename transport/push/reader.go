package push

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/internal/rendezvous"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Defaults of ReaderConfig.
const (
	defaultReadOctets = 256 << 10
	defaultReadWait   = 5 * time.Second
)

// ReaderConfig is the configuration of a Reader. Zero fields mean the defaults. NewReader copies it.
type ReaderConfig struct {
	// From is the number of the first record. If zero, the oldest one that is kept.
	From uint64
	// Octets limits the records of one call. The largest record needs 20 more than it has. If zero, 256 KiB; at
	// most 2 MiB.
	Octets int
	// Wait is how long the server may wait for another record before it answers. If zero, 5 s.
	Wait time.Duration
	// Silence is how long a call may take beyond Wait: then Next and TryNext end with commitlog.ErrSilent. If zero,
	// one minute; if negative, for ever.
	Silence time.Duration
}

// Reader reads the records of a log at a server, and releases them. It fences nobody: any number of readers may
// read a log to which another process appends. They need its secret.
//
// A Reader has no goroutine and need not be closed. It is not safe for concurrent use.
type Reader struct {
	rpc    rpc.Caller
	name   string
	secret Secret
	cfg    ReaderConfig
	recs   []*commitlog.Record // read, but not returned yet
	epoch  uint32              // of the last record returned
}

// NewReader returns a reader of the log name at the server behind caller. An error says which setting is out of
// range, and wraps rpc.ErrConfig.
func NewReader(caller rpc.Caller, name string, secret Secret, cfg *ReaderConfig) (*Reader, error) {
	r := &Reader{rpc: caller, name: name, secret: secret}
	if cfg != nil {
		r.cfg = *cfg
	}
	err := setting.Check(setting.Int("Octets", r.cfg.Octets, 1, maxReadOctets), setting.Time("Wait", r.cfg.Wait))
	if err != nil {
		return nil, &Error{Op: "read", Log: name, Err: err}
	}
	r.cfg.Octets = cmp.Or(r.cfg.Octets, defaultReadOctets)
	r.cfg.Wait = cmp.Or(r.cfg.Wait, defaultReadWait)
	r.cfg.Silence = cmp.Or(r.cfg.Silence, defaultSilence)
	return r, nil
}

// Reader returns a reader of the log of s, from the record with number from on; 0: from the oldest one.
// It uses the RPC client of s, and has its Silence, but goes on when s is closed.
func (s *Session) Reader(from uint64) *Reader {
	return &Reader{rpc: s.rpc, name: s.name, secret: s.cfg.Secret, cfg: ReaderConfig{
		From: from, Wait: defaultReadWait, Silence: s.cfg.Producer.Silence,
		Octets: min(max(defaultReadOctets, s.cfg.MaxRecord+entryLen), maxReadOctets),
	}}
}

// Next returns the next record as soon as it is in the log. It waits until ctx ends. The record
// belongs to the caller; its Pos is zero. Errors are of type *Error, and not final: Next may be called
// again. If the record was released already, they wrap a *commitlog.ReleasedError: another Reader
// may go on from its First.
func (r *Reader) Next(ctx context.Context) (rec *commitlog.Record, err error) {
	for rec == nil && err == nil {
		rec, err = r.next(ctx, r.cfg.Wait)
	}
	return rec, err
}

// TryNext is Next, but returns nil if there is no further record yet.
func (r *Reader) TryNext(ctx context.Context) (*commitlog.Record, error) { return r.next(ctx, 0) }

// next returns the next record, or nil if the server has waited in vain.
func (r *Reader) next(ctx context.Context, wait time.Duration) (*commitlog.Record, error) {
	if len(r.recs) == 0 {
		err := rendezvous.Keep(ctx, defaultTimes.least, defaultTimes.most, func() error { return r.read(ctx, wait) }, notBusy)
		if err != nil {
			return nil, &Error{Op: "read", Log: r.name, Err: err}
		}
	}
	if len(r.recs) == 0 {
		return nil, nil
	}
	rec := r.recs[0]
	r.recs = r.recs[1:]
	r.cfg.From, r.epoch = rec.Seq+1, rec.Epoch
	return rec, nil
}

// Release frees the room of all records up to number seq, durably: nobody can read them anymore. Call it when their
// effects are durable elsewhere. Releasing a record again does nothing. Errors are of type *Error; StatusGap means
// that the log has no record seq yet, and that nothing was released.
func (r *Reader) Release(ctx context.Context, seq uint64) error {
	a := releaseArgs{Name: r.name, Secret: r.secret, Seq: seq}
	ctx, stop := unlessSilent(ctx, 0, r.cfg.Silence)
	defer stop()
	err := rendezvous.Keep(ctx, defaultTimes.least, defaultTimes.most, func() error {
		st := StatusOK
		err := call(ctx, r.rpc, procRelease, a.append(nil), maxResults, func(d *xdr.Decoder) { st = Status(d.Uint32()) })
		if err == nil && st != StatusOK {
			return st
		}
		return err
	}, notBusy)
	switch {
	case err == nil:
		return nil
	case errors.Is(context.Cause(ctx), commitlog.ErrSilent):
		err = context.Cause(ctx)
	}
	return &Error{Op: "release", Log: r.name, Err: err}
}

func (r *Reader) read(ctx context.Context, wait time.Duration) error {
	a := readArgs{
		Name: r.name, Secret: r.secret, From: r.cfg.From,
		Octets: uint32(r.cfg.Octets), Milliseconds: uint32(min(wait, time.Hour).Milliseconds()),
	}
	ctx, stop := unlessSilent(ctx, wait, r.cfg.Silence)
	defer stop()
	var res readRes
	start := time.Now()
	err := call(ctx, r.rpc, procRead, a.append(nil), int(a.Octets)+readResLen, res.parse)
	switch {
	case err != nil && errors.Is(context.Cause(ctx), commitlog.ErrSilent):
		return context.Cause(ctx)
	case err != nil:
		return err
	case res.Status == StatusReleased && res.First <= r.cfg.From: // who goes on from First would ask for ever
		return fmt.Errorf("%w: record %d released, and %d kept", errReply, r.cfg.From, res.First)
	case res.Status == StatusReleased:
		return &commitlog.ReleasedError{Seq: r.cfg.From, First: res.First}
	case res.Status != StatusOK:
		return res.Status
	case len(res.Records) == 0 && wait >= defaultTimes.least && time.Since(start) < defaultTimes.least:
		return StatusBusy // it has not waited: asked again at once, it would answer at once
	}
	next, epoch := r.cfg.From, max(r.epoch, 1)
	for _, rec := range res.Records {
		if rec.Seq == 0 || rec.Seq == math.MaxUint64 || next != 0 && rec.Seq != next || rec.Epoch < epoch {
			return fmt.Errorf("%w: record %d of epoch %d instead of %d, after epoch %d", errReply, rec.Seq, rec.Epoch, next, r.epoch)
		}
		next, epoch = rec.Seq+1, rec.Epoch
	}
	r.recs = res.Records
	return nil
}

// silenceTicks is how often silence is counted.
const silenceTicks = 4

// unlessSilent ends ctx with commitlog.ErrSilent after wait and silence. It counts ticks and not time: a process that was
// stopped itself must not give up when it goes on.
func unlessSilent(ctx context.Context, wait, silence time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if silence > 0 {
		go func() {
			t := time.NewTicker((wait + silence) / silenceTicks)
			defer t.Stop()
			for range silenceTicks {
				select {
				case <-t.C:
				case <-ctx.Done():
					return
				}
			}
			cancel(fmt.Errorf("%w for %v", commitlog.ErrSilent, wait+silence))
		}()
	}
	return ctx, func() { cancel(nil) }
}
