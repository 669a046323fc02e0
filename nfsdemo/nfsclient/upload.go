package nfsclient

import (
	"context"
	"errors"
	"io"
	"math"
	"sync"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// uploadTries is how often a window is sent before WriteFrom gives up. The last try is FILE_SYNC, so
// that nothing can be lost.
const uploadTries = 4

// releaser is a source that must know which octets are durable: see [Window].
type releaser interface {
	Release(off int64)
	Size() int64
}

// WriteFrom copies src into a file from its start, with several WRITEs in flight, and returns the
// number of octets that are durable on the server. size is a hint, -1 if unknown; src is read to its
// end, by several goroutines. See [Window] for a stream and [Lender] for memory. progress, if not nil,
// is called with the number of octets as they are copied.
//
// WRITEs are UNSTABLE and followed by COMMIT. If the write verifier shows that the server may have
// lost data, they are sent again (RFC 1813 Section 3.3.21: "the client must retransmit all of the
// buffers"). A file of one block is written FILE_SYNC instead, which saves the COMMIT.
func (c *Client) WriteFrom(ctx context.Context, n *Node, src io.ReaderAt, size int64, progress func(octets int)) (int64, error) {
	return c.WriteRange(ctx, n, src, 0, size, progress)
}

// WriteRange is WriteFrom from offset off on, of the file and of src, whose size is a hint. It returns the
// offset up to which the octets that it has written are durable.
func (c *Client) WriteRange(ctx context.Context, n *Node, src io.ReaderAt, off, size int64, progress func(octets int)) (int64, error) {
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
	var p pace
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
		res, err := u.c.write(ctx, u.n, at, part, u.stable)
		if err != nil {
			return done, false, err
		}
		u.wrote(&res)
		if done += int(res.Count); int(res.Count) == len(part) {
			continue
		}
		if err := p.next(int(res.Count)); err != nil {
			return done, false, err
		}
	}
	return done, last, nil
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
	done := 0
	var pc pace
	for first := true; first || done < len(p); first = false {
		res, err := c.write(ctx, n, off+int64(done), p[done:min(len(p), done+c.writes.size)], stable)
		if err != nil {
			return done, verf, pathErr("write", n.Path, err)
		}
		done, verf = done+int(res.Count), res.Verf
		if done == len(p) {
			break
		}
		if err := pc.next(int(res.Count)); err != nil {
			return done, verf, pathErr("write", n.Path, err)
		}
	}
	return done, verf, nil
}

// Commit makes all data that were written to n durable and returns the write verifier. Data written
// under another verifier may be lost (RFC 1813 Section 3.3.21).
func (c *Client) Commit(ctx context.Context, n *Node) (nfs3.WriteVerf, error) {
	verf, err := c.commit(ctx, n)
	return verf, pathErr("commit", n.Path, err)
}
