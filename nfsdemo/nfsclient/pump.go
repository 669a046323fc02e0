package nfsclient

import (
	"context"
	"sync"
)

// A moveFunc moves the octets [off, off+n) of a file. It returns how many it moved, and whether the
// source ends there; if it moved fewer than n, the source ends. Several goroutines call it, each with
// its own worker.
type moveFunc func(ctx context.Context, w *worker, off int64, n int) (moved int, last bool, err error)

// freeList keeps equal buffers of size octets that are not in use, as many as its channel holds. Safe for concurrent use.
type freeList struct {
	size int
	free chan []byte
}

// worker is one of the goroutines of a pump and lends it a buffer.
type worker struct {
	bufs *freeList
	mem  []byte
}

// smallBlock is the size up to which a buffer is made for one block: many small files may be in flight, and
// a block of a large one is 1 MiB.
const smallBlock = 64 << 10

// buf returns n octets of scratch memory, valid until the next call with another n. n must not
// exceed the block size.
func (w *worker) buf(n int) []byte {
	if len(w.mem) < n {
		w.done()
		if n > smallBlock {
			n = w.bufs.size
		}
		select {
		case w.mem = <-w.bufs.free:
		default:
			w.mem = make([]byte, n)
		}
	}
	return w.mem[:n]
}

// done returns the buffer.
func (w *worker) done() {
	if len(w.mem) == w.bufs.size {
		select {
		case w.bufs.free <- w.mem:
		default:
		}
	}
	w.mem = nil
}

// pump keeps up to depth blocks of a file in flight. Blocks start in the order of their offsets and
// end in any order. It is used once.
type pump struct {
	bufs  *freeList // with blocks of its size
	depth int
	move  moveFunc
	note  func(n int) // called after each block; may be nil

	mu   sync.Mutex
	next int64 // offset of the next block to start
	end  int64 // where the source ends; -1: unknown
	last bool  // the end was found, not given
	good int64 // all octets before this were moved: see run
	err  error // the first error
}

// run moves [off, end), or, if end < 0, from off to the end of the source. It returns the octet up to
// which everything was moved, and whether the source ends there. The first error stops everything;
// octets beyond good may have been moved too.
func (p *pump) run(ctx context.Context, off, end int64) (good int64, last bool, err error) {
	p.next, p.end, p.good = off, end, -1
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n := p.workers(off, end)
	if n <= 1 {
		p.work(ctx, cancel)
	} else {
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() { p.work(ctx, cancel) })
		}
		wg.Wait()
	}
	if p.good < 0 {
		p.good = p.next
	}
	return p.good, p.last, p.err
}

// workers returns how many blocks can be in flight in [off, end): one if the end is unknown, because
// reading ahead would ask for octets that do not exist.
func (p *pump) workers(off, end int64) int {
	if end < 0 {
		return 1
	}
	block := int64(p.bufs.size)
	return int(min((end-off+block-1)/block, int64(p.depth)))
}

// work moves blocks until there are none left.
func (p *pump) work(ctx context.Context, cancel context.CancelFunc) {
	w := worker{bufs: p.bufs}
	defer w.done()
	for {
		off, n := p.take(ctx)
		if n == 0 {
			return
		}
		moved, last, err := p.move(ctx, &w, off, n)
		if p.note != nil && moved > 0 {
			p.note(moved)
		}
		if p.finish(off, n, moved, last, err) {
			cancel()
			return
		}
	}
}

// take starts the next block; n is 0 if there is none.
func (p *pump) take(ctx context.Context) (off int64, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := ctx.Err(); err != nil && p.err == nil && (p.end < 0 || p.next < p.end) {
		p.err = context.Cause(ctx)
	}
	if p.err != nil {
		return 0, 0
	}
	off, n = p.next, p.bufs.size
	if p.end >= 0 {
		n = int(min(int64(n), p.end-off))
	}
	p.next += int64(max(n, 0))
	return off, max(n, 0)
}

// finish records the outcome of a block and reports whether to stop.
func (p *pump) finish(off int64, n, moved int, last bool, err error) (stop bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := off + int64(moved)
	if moved < n || err != nil {
		if p.good < 0 || at < p.good {
			p.good = at
		}
	}
	if err != nil {
		if p.err == nil {
			p.err = err
		}
		return true
	}
	if last || moved < n {
		if !p.last || at < p.end {
			p.end, p.last = at, true
		}
	}
	return false
}
