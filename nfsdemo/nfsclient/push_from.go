package nfsclient

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"github.com/stag-rdma/stag/nfsdemo/internal/pushfile"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
)

// Pushed says how a file was written.
type Pushed struct {
	Size   int64 // octets that are durable, or, with Level Placed, visible to everybody
	Pushed int64 // how many of them, from the start, by push; the others by WRITE and COMMIT
	// Rung and Level say how the pushed octets were appended, and how durable that is. Zero
	// if none were pushed; WRITE and COMMIT are as durable as the server's disk.
	Rung  push.Rung
	Level commitlog.Level
	// Why says why the other octets were not pushed; nil if there are none.
	Why error
}

// PushFrom is WriteFrom by push. Octets that cannot be pushed are written with WRITE and COMMIT: all
// of them if the server does not support push, or does not allow it for this file; the octets not yet
// acknowledged if the file is recalled or the log is fenced halfway. An error says that neither way
// worked, or that the server cannot apply what it has acknowledged (*ApplyError).
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
	told     atomic.Int64 // octets that progress was called with
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
	// The server applies everything that it has acknowledged before it executes a WRITE.
	r.Why = err
	u := upload{c: p.f.c, n: p.f.n, src: p.src, lender: p.lender, progress: p.rest(r.Pushed)}
	r.Size, err = u.run(ctx, r.Pushed, size)
	if err == nil && p.f.pushed { // a WRITE without COMMIT did not ask about the pushed octets
		err = pathErr("commit", p.f.n.Path, p.f.applied(ctx))
	}
	return r, err
}

// wantsWrite reports whether WRITE may succeed where push failed: not if the source has failed.
func (p *pushing) wantsWrite(err error) bool {
	if errors.Is(err, ErrRecalled) {
		return true
	}
	ended := p.f.session.Err()
	return ended != nil && errors.Is(err, ended)
}

// push appends src from its start, and returns the offset up to which all octets were acknowledged.
func (p *pushing) push(ctx context.Context, size int64) (off int64, err error) {
	return p.f.c.windows(p.src, 0, size, func(off, end int64) (int64, bool, error) {
		pump := pump{bufs: p.f.bufs, block: p.f.max, depth: p.f.p.cfg.InFlight, move: p.move, note: p.count()}
		return pump.run(ctx, off, end)
	})
}

// count returns a function that counts acknowledged octets, or nil without progress.
func (p *pushing) count() func(int) {
	if p.progress == nil {
		return nil
	}
	return func(n int) {
		p.told.Add(int64(n))
		p.progress(n)
	}
}

// rest is count for the octets after off. Some of them were acknowledged before and are written
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
