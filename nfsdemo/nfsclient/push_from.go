package nfsclient

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"github.com/stag-rdma/stag/nfsdemo/pushfile"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
)

// Pushed says how a file was written.
type Pushed struct {
	Size   int64 // octets that are durable, or with Level Placed, seen by everybody
	Pushed int64 // of them by push, from the first on; the others by WRITE and COMMIT
	// Rung and Level are of those that were pushed: by what, and what that was worth. Zeros
	// if there are none; WRITE and COMMIT are as durable as the server's disk.
	Rung  push.Rung
	Level commitlog.Level
	// Why is what kept the others from being pushed; nil if there are none.
	Why error
}

// PushFrom is WriteFrom by push. What cannot be pushed is written with WRITE and COMMIT: all of
// it when the server does not have that or does not want it for this file; what was not
// acknowledged when the file is recalled, or the log is fenced, in the middle. An error
// says that it could not be written in either way, or that what was acknowledged cannot be
// applied (*ApplyError).
func (c *Client) PushFrom(ctx context.Context, n *Node, src io.ReaderAt, size int64, progress func(octets int)) (Pushed, error) {
	f, err := c.OpenPush(ctx, n, uint64(max(size-n.Size(), 0)))
	if err != nil {
		if ctx.Err() != nil {
			return Pushed{}, err
		}
		r := Pushed{Why: err}
		r.Size, err = c.WriteFrom(ctx, n, src, size, progress)
		return r, err
	}
	lender, _ := src.(Lender)
	p := pushing{f: f, src: src, lender: lender, progress: progress}
	r, err := p.run(ctx, size)
	r.Rung, r.Level = p.rung, f.level
	return r, err
}

// pushing is a file on its way from src by push.
type pushing struct {
	f        *PushFile
	src      io.ReaderAt
	lender   Lender // src, if it is one
	progress func(int)
	rung     push.Rung
	told     atomic.Int64 // octets that progress knows of
}

func (p *pushing) run(ctx context.Context, size int64) (r Pushed, err error) {
	r.Pushed, err = p.push(ctx, size)
	p.rung = p.f.Rung()
	cerr := p.f.Close(ctx)
	switch {
	case err == nil:
		r.Size = r.Pushed
		return r, cerr
	case ctx.Err() != nil:
		return r, err
	case !p.wantsWrite(err):
		return r, err
	}
	// What was acknowledged is the server's, and it applies that before it looks at a WRITE.
	r.Why = err
	u := upload{c: p.f.c, n: p.f.n, src: p.src, lender: p.lender, progress: p.rest(r.Pushed)}
	r.Size, err = u.run(ctx, r.Pushed, size)
	if err == nil && p.f.pushed { // a WRITE that needed no COMMIT has not asked for those before
		err = pathErr("commit", p.f.n.Path, p.f.applied(ctx))
	}
	return r, err
}

// wantsWrite says whether WRITE may do what push could not: not when the source has failed.
func (p *pushing) wantsWrite(err error) bool {
	if errors.Is(err, ErrRecalled) {
		return true
	}
	ended := p.f.session.Err()
	return ended != nil && errors.Is(err, ended)
}

// push appends src from its start, and returns up to where all of it was acknowledged.
func (p *pushing) push(ctx context.Context, size int64) (off int64, err error) {
	return p.f.c.windows(p.src, 0, size, func(off, end int64) (int64, bool, error) {
		pump := pump{bufs: p.f.bufs, block: p.f.max, depth: p.f.p.cfg.InFlight, move: p.move, note: p.count()}
		return pump.run(ctx, off, end)
	})
}

// count is told of octets that were acknowledged; nil if nobody wants to know.
func (p *pushing) count() func(int) {
	if p.progress == nil {
		return nil
	}
	return func(n int) {
		p.told.Add(int64(n))
		p.progress(n)
	}
}

// rest is count for what lies behind off, some of which was acknowledged, and is written
// again.
func (p *pushing) rest(off int64) func(int) {
	if p.progress == nil {
		return nil
	}
	var again atomic.Int64
	again.Store(p.told.Load() - off)
	return func(n int) {
		if left := again.Add(-int64(n)); left < 0 {
			p.progress(int(min(-left, int64(n))))
		}
	}
}

// move implements moveFunc.
func (p *pushing) move(ctx context.Context, w *worker, off int64, n int) (int, bool, error) {
	mem := w.buf(pushfile.RecordHead + n)
	n, last, err := p.fetch(mem[pushfile.RecordHead:], off)
	if err != nil || n == 0 {
		return 0, last, err
	}
	if _, err := p.f.append(ctx, mem, n, off); err != nil {
		return 0, false, pathErr("push", p.f.n.Path, err)
	}
	return n, last, nil
}

// fetch reads the source at off.
func (p *pushing) fetch(mem []byte, off int64) (n int, last bool, err error) {
	if p.lender != nil {
		n = copy(mem, p.lender.Lend(off, len(mem)))
		return n, n < len(mem), nil
	}
	n, err = p.src.ReadAt(mem, off)
	if errors.Is(err, io.EOF) {
		return n, true, nil
	}
	return n, false, err
}
