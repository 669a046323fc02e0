package nfsclient

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"sync"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// ReadTo copies a file from offset off on into dst, with several READs in flight, and returns the offset at which it
// ended: the size of the file. Several goroutines write to dst, at the file's offsets; see [OrderedWriter] for a pipe and
// [Lender] for memory. The size in n is a hint: ReadTo reads to the actual end of the file. progress, if not nil, is called
// with the number of octets as they are copied.
func (c *Client) ReadTo(ctx context.Context, n *Node, dst io.WriterAt, off int64, progress func(octets int)) (int64, error) {
	d := download{c: c, n: n, dst: dst}
	d.lender, _ = dst.(Lender)
	var err error
	for _, end := range [...]int64{n.Size(), -1} {
		if end >= 0 && end <= off {
			continue
		}
		p := pump{bufs: c.reads, depth: c.cfg.InFlight, move: d.move, note: progress}
		var last bool
		if off, last, err = p.run(ctx, off, end); last || err != nil {
			break
		}
	}
	return off, pathErr("read", n.Path, err)
}

// download is a file on its way to dst.
type download struct {
	c      *Client
	n      *Node
	dst    io.WriterAt
	lender Lender // dst, if it is one
}

// move implements moveFunc. An OrderedWriter is told what will never come, so that nobody waits for it.
func (d *download) move(ctx context.Context, w *worker, off int64, n int) (int, bool, error) {
	done, last, err := d.block(ctx, w, off, n)
	o, ok := d.dst.(*OrderedWriter)
	switch {
	case errors.Is(err, errPastEnd):
		return 0, true, nil
	case ok && err != nil:
		o.fail(err)
	case ok && done < n:
		o.end(off + int64(done))
	}
	return done, last, err
}

// block moves the octets [off, off+n), through the worker's memory unless dst lends its own.
func (d *download) block(ctx context.Context, w *worker, off int64, n int) (int, bool, error) {
	var mem []byte
	if d.lender != nil {
		mem = d.lender.Lend(off, n)
	}
	lent := len(mem) == n
	if !lent {
		mem = w.buf(n)
	}
	return d.c.fill(ctx, d.n, mem, off, func(data []byte, at int) error {
		if lent {
			keep(mem[at:], data)
			return nil
		}
		return writeAt(d.dst, data, off+int64(at))
	})
}

// fill reads what p has room for, from offset off, and passes it to use, with its place in p. It continues a short READ
// (RFC 1813 Section 3.3.6: a READ is short by the server's choice, or at the end of the file, and then eof is set).
func (c *Client) fill(ctx context.Context, n *Node, p []byte, off int64, use func(data []byte, at int) error) (done int, eof bool, err error) {
	var pc pace
	for done < len(p) {
		at := done
		got, eof, err := c.read(ctx, n, off+int64(at), p[at:min(len(p), at+c.reads.size)], func(data []byte) error { return use(data, at) })
		if done += got; err != nil || eof || done == len(p) {
			return done, eof, err
		}
		if err := pc.next(got); err != nil {
			return done, false, err
		}
	}
	return done, false, nil
}

// keep copies data to sink unless they are there already.
func keep(sink, data []byte) {
	if len(data) > 0 && &sink[0] != &data[0] {
		copy(sink, data)
	}
}

// writeAt writes all of data.
func writeAt(dst io.WriterAt, data []byte, off int64) error {
	if len(data) == 0 {
		return nil
	}
	n, err := dst.WriteAt(data, off)
	if err == nil && n < len(data) {
		err = io.ErrShortWrite
	}
	return err
}

// ReadAt reads into p, which it borrows, from offset off. It returns fewer than len(p) octets only
// with an error, which is io.EOF at the end of the file.
func (c *Client) ReadAt(ctx context.Context, n *Node, p []byte, off int64) (int, error) {
	done, eof, err := c.fill(ctx, n, p, off, func(data []byte, at int) error {
		keep(p[at:], data)
		return nil
	})
	if err == nil && eof && done < len(p) {
		return done, io.EOF
	}
	return done, pathErr("read", n.Path, err)
}

// Source returns n as a source of [Client.WriteFrom], for copies between servers.
func (c *Client) Source(ctx context.Context, n *Node) io.ReaderAt { return &source{ctx, c, n} }

// source binds a file to the context of one transfer.
type source struct {
	ctx context.Context //nolint:containedctx // io.ReaderAt takes no context
	c   *Client
	n   *Node
}

// ReadAt implements io.ReaderAt.
func (s *source) ReadAt(p []byte, off int64) (int, error) { return s.c.ReadAt(s.ctx, s.n, p, off) }

// uploadTries is how often a window is sent before WriteFrom gives up. The last try is FILE_SYNC, so
// that nothing can be lost.
const uploadTries = 4

// releaser is a source that must know which octets are durable: see [Window].
type releaser interface {
	Release(off int64)
	Size() int64
}

// WriteFrom copies src into a file, from offset off of both on, with several WRITEs in flight, and returns the offset up to
// which the octets that it has written are durable on the server. size, that of src, is a hint, -1 if unknown; src is read to
// its end, by several goroutines. See [Window] for a stream and [Lender] for memory. progress, if not nil, is called with the
// number of octets as they are copied.
//
// WRITEs are UNSTABLE and followed by COMMIT. If the write verifier shows that the server may have
// lost data, they are sent again (RFC 1813 Section 3.3.21: "the client must retransmit all of the
// buffers"). A file of one block is written FILE_SYNC instead, which saves the COMMIT.
func (c *Client) WriteFrom(ctx context.Context, n *Node, src io.ReaderAt, off, size int64, progress func(octets int)) (int64, error) {
	u := upload{c: c, n: n, src: src, holes: math.MaxInt64}
	u.lender, _ = src.(Lender)
	u.single = size >= 0 && size-off <= int64(c.writes.size)
	if _, sparse := src.(SparseSource); sparse {
		u.holes = n.Size()
	}
	window := c.cfg.CommitEvery
	keeper, _ := src.(releaser)
	if keeper != nil {
		window = min(window, keeper.Size())
	}
	for last := false; !last; {
		end := off + window
		if size > off {
			end = min(end, size)
		}
		good, ended, err := u.window(ctx, off, end, progress)
		if err != nil { // the octets after off have not been committed
			return off, pathErr("write", n.Path, err)
		}
		if off, last = good, ended; keeper != nil {
			keeper.Release(off)
		}
	}
	if off > u.holes { // the last block may have been left out
		return off, c.SetAttr(ctx, n, &nfs3.SetAttr{SetSize: true, Size: uint64(off)})
	}
	return off, nil
}

// upload is a file on its way from src.
type upload struct {
	c      *Client
	n      *Node
	src    io.ReaderAt
	lender Lender // src, if it is one
	single bool   // the whole file is one block
	holes  int64  // from here on zeros are left out

	stable nfs3.StableHow // of the WRITEs of this try

	mu       sync.Mutex
	unstable bool           // some writes need a COMMIT
	verf     nfs3.WriteVerf // the write verifier of these writes
	lost     bool           // two verifiers were seen: some of them may be lost
}

// window sends [off, end) until it is durable. good is where it ended; last says that the source ends
// there.
func (u *upload) window(ctx context.Context, off, end int64, note func(int)) (good int64, last bool, err error) {
	for try := 1; try <= uploadTries; try++ {
		u.stable, u.unstable, u.lost = nfs3.Unstable, false, false
		if try == uploadTries || u.single {
			u.stable = nfs3.FileSync
		}
		p := pump{bufs: u.c.writes, depth: u.c.cfg.InFlight, move: u.move, note: note}
		if good, last, err = p.run(ctx, off, end); err != nil {
			return good, last, err
		}
		if !u.lost && u.unstable {
			verf, err := u.c.commit(ctx, u.n)
			if err != nil {
				return good, last, err
			}
			u.lost = verf != u.verf
		}
		if !u.lost {
			return good, last, nil
		}
		note = nil // these octets have been counted
	}
	return good, last, ErrVerifier
}

// move implements moveFunc.
func (u *upload) move(ctx context.Context, w *worker, off int64, n int) (done int, last bool, err error) {
	var data []byte
	if u.lender != nil {
		data = u.lender.Lend(off, n)
		last = len(data) < n
	} else {
		data = w.buf(n)
		n, err = u.src.ReadAt(data, off)
		if data, last = data[:n], errors.Is(err, io.EOF); err != nil && !last {
			return 0, false, err
		}
	}
	for done < len(data) {
		part, at := data[done:], off+int64(done)
		if at >= u.holes {
			n, hole := span(part)
			if hole {
				done += n
				continue
			}
			part = part[:n]
		}
		n, err := u.c.put(ctx, u.n, part, at, u.stable, u.wrote)
		if done += n; err != nil {
			return done, false, err
		}
	}
	return done, last, nil
}

// put writes data at offset off, with more WRITEs where one is short, and passes their results to wrote.
func (c *Client) put(ctx context.Context, n *Node, data []byte, off int64, stable nfs3.StableHow, wrote func(*nfs3.WriteRes)) (done int, err error) {
	var p pace
	for {
		res, err := c.write(ctx, n, off+int64(done), data[done:min(len(data), done+c.writes.size)], stable)
		if err != nil {
			return done, err
		}
		wrote(&res)
		if done += int(res.Count); done == len(data) {
			return done, nil
		}
		if err := p.next(int(res.Count)); err != nil {
			return done, err
		}
	}
}

// wrote records what must be committed after a WRITE.
func (u *upload) wrote(res *nfs3.WriteRes) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if res.Committed != nfs3.Unstable {
		return
	}
	if u.unstable && res.Verf != u.verf {
		u.lost = true
	}
	u.unstable, u.verf = true, res.Verf
}

// WriteAt writes p, which it borrows, at offset off with the given stability. It returns the number of
// octets written and the write verifier. UNSTABLE data need a [Client.Commit] that returns the same
// verifier.
func (c *Client) WriteAt(ctx context.Context, n *Node, p []byte, off int64, stable nfs3.StableHow) (int, nfs3.WriteVerf, error) {
	var verf nfs3.WriteVerf
	done, err := c.put(ctx, n, p, off, stable, func(res *nfs3.WriteRes) { verf = res.Verf })
	return done, verf, pathErr("write", n.Path, err)
}

// Commit makes all data that were written to n durable and returns the write verifier. Data written
// under another verifier may be lost (RFC 1813 Section 3.3.21).
func (c *Client) Commit(ctx context.Context, n *Node) (nfs3.WriteVerf, error) {
	verf, err := c.commit(ctx, n)
	return verf, pathErr("commit", n.Path, err)
}

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

// Window makes an io.ReaderAt from an io.Reader: it keeps the octets that were read until they are
// released, so that UNSTABLE writes can be sent again if the server loses them (RFC 1813 Section
// 3.3.21). Offsets count from the first octet read. It is safe for concurrent use.
type Window struct {
	mu   sync.Mutex
	r    io.Reader
	kept []byte // octets [base, base+len(kept)) of the stream
	base int64
	size int   // most octets kept
	err  error // of r, including io.EOF; final
}

// NewWindow keeps up to size octets of r.
func NewWindow(r io.Reader, size int) *Window { return &Window{r: r, size: size} }

// Size returns how many octets are kept at most, and so how many may be in flight without a COMMIT.
func (w *Window) Size() int64 { return int64(w.size) }

// ReadAt implements io.ReaderAt within the window.
func (w *Window) ReadAt(p []byte, off int64) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if off < w.base || off+int64(len(p)) > w.base+int64(w.size) {
		return 0, io.ErrShortBuffer
	}
	w.fill(int(off-w.base) + len(p))
	if int(off-w.base) >= len(w.kept) {
		return 0, w.end()
	}
	n := copy(p, w.kept[off-w.base:])
	if n < len(p) {
		return n, w.end()
	}
	return n, nil
}

// end returns why there are no more octets.
func (w *Window) end() error {
	if w.err == nil {
		return io.ErrNoProgress
	}
	return w.err
}

// fill reads on until n octets are kept or the stream ends.
func (w *Window) fill(n int) {
	if w.kept == nil {
		w.kept = make([]byte, 0, w.size)
	}
	for empty := 0; len(w.kept) < n && w.err == nil && empty < 100; {
		m, err := w.r.Read(w.kept[len(w.kept):n])
		w.kept, w.err = w.kept[:len(w.kept)+m], err
		if m == 0 {
			empty++
		}
	}
}

// Release forgets the octets before off, which are durable.
func (w *Window) Release(off int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := int(min(off-w.base, int64(len(w.kept)))); n > 0 {
		w.kept = w.kept[:copy(w.kept, w.kept[n:])]
		w.base += int64(n)
	}
}

// OrderedWriter makes an io.WriterAt from an io.Writer: WriteAt waits until all octets before its
// offset are written. So several blocks of a file can be fetched at a time and still be written to a
// pipe in order. It holds no data.
type OrderedWriter struct {
	w    io.Writer
	stop func() bool

	mu   sync.Mutex
	cond sync.Cond
	off  int64
	last int64 // no octet from here on will be written; -1: unknown
	err  error // first error of w, of the context or of a READ; final
}

// errPastEnd is returned to those who wait for octets that will not be written.
var errPastEnd = errors.New("nfsclient: the file has ended before these octets")

// NewOrderedWriter starts at octet off of the file. When ctx is done, waiting calls return its
// error. The caller must call Close.
func NewOrderedWriter(ctx context.Context, w io.Writer, off int64) *OrderedWriter {
	o := &OrderedWriter{w: w, off: off, last: -1}
	o.cond.L = &o.mu
	o.stop = context.AfterFunc(ctx, func() { o.fail(context.Cause(ctx)) })
	return o
}

// fail ends all waiting calls with err.
func (o *OrderedWriter) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
	o.cond.Broadcast()
}

// end says that the file ends at octet off, though later octets may have been read: it was truncated.
func (o *OrderedWriter) end(off int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last < 0 || off < o.last {
		o.last = off
	}
	o.cond.Broadcast()
}

// WriteAt implements io.WriterAt. Every octet must be written once. It borrows p.
func (o *OrderedWriter) WriteAt(p []byte, off int64) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	past := func() bool { return o.last >= 0 && off >= o.last }
	for o.err == nil && o.off != off && !past() {
		o.cond.Wait()
	}
	switch {
	case o.err != nil:
		return 0, o.err
	case past():
		return 0, errPastEnd
	}
	n, err := o.w.Write(p)
	o.off += int64(n)
	if err != nil {
		o.err = err
	}
	o.cond.Broadcast()
	return n, err
}

// Close releases the context. It does not close the underlying writer.
func (o *OrderedWriter) Close() error {
	o.stop()
	return nil
}

// Lender is a source or destination of file data in memory. This package reads data from it and
// places data into it without copying them.
type Lender interface {
	// Lend returns the octets [off, off+n), fewer at the end. It lends them until the transfer
	// ends.
	Lend(off int64, n int) []byte
}

// Memory is a file of fixed size in memory: a source and a destination of transfers that needs no
// scratch buffers.
type Memory []byte

var (
	_ Lender      = Memory(nil)
	_ io.ReaderAt = Memory(nil)
	_ io.WriterAt = Memory(nil)
)

// Lend implements [Lender].
func (m Memory) Lend(off int64, n int) []byte {
	if off < 0 || off >= int64(len(m)) {
		return nil
	}
	return m[off:min(off+int64(n), int64(len(m))):min(off+int64(n), int64(len(m)))]
}

// ReadAt implements io.ReaderAt.
func (m Memory) ReadAt(p []byte, off int64) (int, error) {
	n := copy(p, m.Lend(off, len(p)))
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements io.WriterAt. It refuses octets beyond the end.
func (m Memory) WriteAt(p []byte, off int64) (int, error) {
	n := copy(m.Lend(off, len(p)), p)
	if n < len(p) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

// SparseSource is a source of [Client.WriteFrom] whose blocks of zeros are not sent where the file has no octets yet:
// they become holes.
type SparseSource struct{ io.ReaderAt }

// SparseSink is a destination of [Client.ReadTo] that leaves out blocks of zeros from octet From on, where the file
// has none yet. Whoever uses it sets the size of the file afterwards.
type SparseSink struct {
	io.WriterAt
	From int64
}

// WriteAt implements io.WriterAt.
func (s *SparseSink) WriteAt(p []byte, off int64) (int, error) {
	for done := 0; done < len(p); {
		n, zeros := span(p[done:])
		if at := off + int64(done); !zeros || at < s.From {
			if err := writeAt(s.WriterAt, p[done:done+n], at); err != nil {
				return done, err
			}
		}
		done += n
	}
	return len(p), nil
}

// zeros is the smallest hole. Choice: file systems have blocks of 4 KiB.
var zeros [4096]byte

// span returns how many octets data begins with that are zeros in whole blocks, or that are none.
func span(data []byte) (n int, hole bool) {
	for n < len(data) {
		b := data[n:min(n+len(zeros), len(data))]
		z := bytes.Equal(b, zeros[:len(b)])
		if n > 0 && z != hole {
			break
		}
		hole = z
		n += len(b)
	}
	return n, hole
}
