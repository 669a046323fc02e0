package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"path"
	"sync"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// partSuffix ends the names of copies that are not finished.
const partSuffix = ".part"

// maxName is the longest name that file systems take, in octets.
const maxName = 255

// partName returns the name under which a copy of name is written. One that would be too long is cut, with a
// hash in place of the rest.
func partName(name string) string {
	if len(name)+len(partSuffix) <= maxName {
		return name + partSuffix
	}
	h := fnv.New64a()
	_, _ = io.WriteString(h, name) // never fails
	return fmt.Sprintf("%s-%016x%s", name[:maxName-len(partSuffix)-17], h.Sum64(), partSuffix)
}

// largeTransfers is how many files of more than one block are copied at a time. Choice: several blocks of each
// are in flight, and more files need more memory but are not faster.
const largeTransfers = 4

// existing is a file that has the name of a copy.
type existing struct {
	mode fs.FileMode
	size int64
	stamp
	same bool // it is the source
}

// copyJSON is a line of cp --json.
type copyJSON struct {
	Source string `json:"source"`
	Path   string `json:"path"`   // where it was copied to
	Octets int64  `json:"octets"` // copied
}

// partFile is a copy that is being written.
type partFile interface {
	// size returns how many octets are there, from an earlier run.
	size() int64
	// fill copies src from offset from to its end, and cuts off the rest.
	fill(ctx context.Context, c *copier, src *source, from int64) (int64, error)
	// same compares src with the copy, of size octets.
	same(ctx context.Context, src *source, size int64) error
	// set sets attributes, and returns those that the copy has then.
	set(ctx context.Context, want attrs) (got attrs, err error)
	// rename gives the copy its name.
	rename(ctx context.Context, name string) error
	// close ends it; with remove, nothing is left of it.
	close(ctx context.Context, remove bool) error
}

// put copies a regular file or a stream: to NAME.part, which becomes NAME when everything is there.
func (c *copier) put(ctx context.Context, src *source, dst target) error {
	old, err := dst.old(ctx, src.name, src)
	if err != nil {
		return err
	}
	p := path.Join(dst.show(), src.name)
	if old != nil {
		switch {
		case c.skips(old, src):
			c.bar.skip(src.size)
			return nil
		case old.same:
			return &fs.PathError{Op: "write", Path: p, Err: errSameFile}
		case old.mode.IsDir():
			return &fs.PathError{Op: "write", Path: p, Err: errIsDir}
		}
	}
	if src.size < 0 || src.size > int64(c.a.client.block) {
		select {
		case c.large <- struct{}{}:
			defer func() { <-c.large }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	c.say(src, dst, src.name)
	size, err := c.transfer(ctx, src, dst, old)
	if err != nil {
		return err
	}
	c.bar.copied()
	if !c.a.json {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.a.printJSON(copyJSON{Source: src.show, Path: p, Octets: size})
}

// skips reports whether src need not be copied over old.
func (c *copier) skips(old *existing, src *source) bool {
	if c.keep {
		return true
	}
	if src.stream != nil || !old.mode.IsRegular() {
		return false
	}
	// As far as NFS can say: the copy of a file from 2107 is not older than that.
	was, is := old.stamp, stamp{nfs3.TimeOf(src.mtime).Time(), src.ctime}
	was.mtime = nfs3.TimeOf(was.mtime).Time()
	same := sameTime(was, is)
	newer := was.mtime.After(is.mtime) && !same
	alike := old.size == src.size && (newer || same)
	return c.update && (alike || newer) || c.resume && alike
}

// cleanUpTime limits the removal of an unfinished file.
const cleanUpTime = 2 * time.Second

// transfer is put without the decision whether to copy.
func (c *copier) transfer(ctx context.Context, src *source, dst target, old *existing) (size int64, err error) {
	mode := src.mode.Perm()
	keep := old != nil && old.mode.IsRegular() && !c.preserve // the mode of the file that is replaced
	if keep {
		mode = old.mode.Perm()
	}
	f, err := dst.create(ctx, src.name, mode, c.resume, src, old)
	if err != nil {
		return size, err
	}
	size, err = c.write(ctx, f, src, mode, keep)
	if err == nil {
		err = f.rename(ctx, src.name)
	}
	// What can be continued stays: after an interrupt, a lost connection, or if the user has asked for it.
	why := err
	if ctx.Err() != nil {
		why = context.Cause(ctx)
	}
	stays := err != nil && src.stream == nil && !errors.Is(err, errDiffers) && (c.resume || c.user.Err() != nil || isLost(why))
	if stays {
		c.mu.Lock()
		c.left++
		c.mu.Unlock()
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
	defer cancel()
	if cerr := f.close(end, err != nil && !stays); err == nil {
		err = cerr
	}
	return size, err
}

// write writes the copy and its attributes.
func (c *copier) write(ctx context.Context, f partFile, src *source, mode fs.FileMode, keep bool) (size int64, err error) {
	from := c.resumeAt(f.size())
	c.bar.skipped(from)
	if size, err = f.fill(ctx, c, src, from); err != nil {
		return size, err
	}
	if err := src.complete(size); err != nil {
		return size, err
	}
	if c.verify {
		if err := f.same(ctx, src, size); err != nil {
			return size, err
		}
	}
	switch {
	case c.preserve && src.stream == nil:
		err = c.keepAll(src, func(want attrs) (attrs, error) { return f.set(ctx, want) })
	case keep:
		_, err = f.set(ctx, attrs{mode: mode, uid: -1, gid: -1})
	}
	return size, err
}

// resumeAt returns where to continue a copy of which size octets are there. Before its end there may be holes:
// blocks that were in flight when it was interrupted. Choice: twice as many as one file has in flight.
func (c *copier) resumeAt(size int64) int64 {
	return max(0, size-2*int64(c.a.client.inFlight)*int64(c.a.client.block))
}

// errDiffers reports a copy that is not what was copied.
var errDiffers = errors.New("the copy differs from the source")

// compared returns the outcome of a comparison that ended at octet end of size: what was not read was not compared.
func compared(end, size int64, err error) error {
	if err == nil && end < size {
		err = fmt.Errorf("%w at octet %d, where it ends", errDiffers, end)
	}
	return err
}

// comparer is an io.WriterAt that compares what it gets with r. It is safe for concurrent use.
type comparer struct {
	r    io.ReaderAt
	bufs sync.Pool
}

// WriteAt implements io.WriterAt.
func (c *comparer) WriteAt(p []byte, off int64) (int, error) {
	b, _ := c.bufs.Get().(*[]byte)
	if b == nil || cap(*b) < len(p) {
		b = new([]byte)
		*b = make([]byte, len(p))
	}
	defer c.bufs.Put(b)
	mem := (*b)[:len(p)]
	n, err := c.r.ReadAt(mem, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if !bytes.Equal(mem[:n], p) {
		at := 0
		for at < min(n, len(p)) && mem[at] == p[at] {
			at++
		}
		return 0, fmt.Errorf("%w at octet %d", errDiffers, off+int64(at))
	}
	return len(p), nil
}
