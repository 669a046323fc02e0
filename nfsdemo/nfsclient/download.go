package nfsclient

import (
	"context"
	"errors"
	"io"
)

// ReadTo copies a whole file into dst, with several READs in flight, and returns the number of octets
// copied. Several goroutines write to dst, at the file's offsets; see [OrderedWriter] for a pipe and
// [Lender] for memory. The size in n is a hint: ReadTo reads to the actual end of the file. progress,
// if not nil, is called with the number of octets as they are copied.
func (c *Client) ReadTo(ctx context.Context, n *Node, dst io.WriterAt, progress func(octets int)) (int64, error) {
	return c.ReadRange(ctx, n, dst, 0, progress)
}

// ReadRange is ReadTo from offset off on. It returns the offset at which it ended: the size of the file.
func (c *Client) ReadRange(ctx context.Context, n *Node, dst io.WriterAt, off int64, progress func(octets int)) (int64, error) {
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

// block moves the octets [off, off+n). It continues a short READ (RFC 1813 Section 3.3.6: a READ is short by the
// server's choice, or at the end of the file, and then eof is set).
func (d *download) block(ctx context.Context, w *worker, off int64, n int) (int, bool, error) {
	var mem []byte
	if d.lender != nil {
		mem = d.lender.Lend(off, n)
	}
	lent := len(mem) == n
	if !lent {
		mem = w.buf(n)
	}
	done := 0
	var p pace
	for done < n {
		at := off + int64(done)
		sink := mem[done:]
		got, eof, err := d.c.read(ctx, d.n, at, sink, func(data []byte) error {
			if lent {
				keep(sink, data)
				return nil
			}
			return writeAt(d.dst, data, at)
		})
		done += got
		switch {
		case err != nil:
			return done, false, err
		case eof:
			return done, true, nil
		case done == n:
			return done, false, nil
		}
		if err := p.next(got); err != nil {
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
	done := 0
	var pc pace
	for done < len(p) {
		sink := p[done:min(len(p), done+c.reads.size)]
		got, eof, err := c.read(ctx, n, off+int64(done), sink, func(data []byte) error {
			keep(sink, data)
			return nil
		})
		done += got
		switch {
		case err != nil:
			return done, pathErr("read", n.Path, err)
		case eof && done < len(p):
			return done, io.EOF
		case done == len(p):
			return done, nil
		}
		if err := pc.next(got); err != nil {
			return done, pathErr("read", n.Path, err)
		}
	}
	return done, nil
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
