package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
)

// source is a file to copy from: on a server, local, or a stream.
type source struct {
	name  string // last element of the path, or that of the copy
	rel   string // path below the argument; "" for the argument
	show  string // for messages
	mode  fs.FileMode
	size  int64 // octets, -1 if unknown
	mtime time.Time
	inode

	client *nfsclient.Client // of node
	node   *nfsclient.Node   // on a server, else nil
	local  string            // local path, else ""
	stream io.Reader         // standard input, else nil
}

// target is a directory to copy into. Several files are copied into it at a time.
type target interface {
	// show returns the path for messages.
	show() string
	// old describes the file that has a name, nil if there is none.
	old(ctx context.Context, name string, src *source) (*existing, error)
	// create makes the file in which the copy of src to name is written. With resume it may be the one of an
	// earlier run. old is what has the name.
	create(ctx context.Context, name string, mode fs.FileMode, resume bool, src *source, old *existing) (partFile, error)
	// symlink makes a symbolic link, the copy of src.
	symlink(ctx context.Context, c *copier, src *source, to string) error
	// sub makes a directory, or opens the one that exists.
	sub(ctx context.Context, name string, mode fs.FileMode) (target, error)
	// finish gives the directory the attributes of src, after everything was copied into it.
	finish(ctx context.Context, c *copier, src *source) error
	// inside reports whether the target is src or below it.
	inside(src *source) bool
	// is reports whether the target is src, as far as numbers and names can tell: they may be files of two
	// servers, or of a server and this host, with the same disk.
	is(src *source) bool
	// close releases what the target holds.
	close()
}

// errSameFile reports an attempt to copy a file onto itself.
var errSameFile = errors.New("source and destination are the same file")

// errChanged reports a file that became shorter while it was read, or a server that ends it too early.
var errChanged = errors.New("the file became shorter while it was read")

// remoteSource describes a file on a server.
func remoteSource(c *nfsclient.Client, n *nfsclient.Node) *source {
	return &source{
		name: n.Name(), show: n.Path, mode: n.Mode(), size: n.Size(), mtime: n.ModTime(),
		client: c, node: n, inode: inode{
			fsid: n.Attr.FSID, id: n.Attr.FileID, links: uint64(n.Attr.Nlink), uid: int64(n.Attr.UID), gid: int64(n.Attr.GID),
			ctime: n.Attr.Ctime.Time(), sparse: n.IsRegular() && n.Attr.Used < n.Attr.Size,
		},
	}
}

// localSource describes a local file.
func localSource(p string, follow bool) (*source, error) {
	stat := os.Lstat
	if follow {
		stat = os.Stat
	}
	st, err := stat(p)
	if err != nil {
		return nil, argErr(p, p, err)
	}
	return &source{
		name: filepath.Base(p), show: p, mode: st.Mode(), size: st.Size(), mtime: st.ModTime(),
		inode: inodeOf(st), local: p,
	}, nil
}

// localBatch is how many names of a local directory are read at a time.
const localBatch = 256

// each lists a directory, a part at a time.
func (s *source) each(ctx context.Context) iter.Seq2[*source, error] {
	return func(yield func(*source, error) bool) {
		if s.node == nil {
			s.eachLocal(yield)
			return
		}
		for n, err := range s.client.Entries(ctx, s.node) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(remoteSource(s.client, n), nil) {
				return
			}
		}
	}
}

// eachLocal is each of a local directory.
func (s *source) eachLocal(yield func(*source, error) bool) {
	d, err := os.Open(s.local)
	if err != nil {
		yield(nil, err)
		return
	}
	defer d.Close()
	for {
		entries, err := d.ReadDir(localBatch)
		for _, e := range entries {
			child, err := localSource(filepath.Join(s.local, e.Name()), false)
			if errors.Is(err, fs.ErrNotExist) {
				continue // removed meanwhile
			}
			if !yield(child, err) || err != nil {
				return
			}
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			yield(nil, err)
			return
		}
	}
}

// link returns the target of a symbolic link.
func (s *source) link(ctx context.Context) (string, error) {
	if s.node != nil {
		return s.client.ReadLink(ctx, s.node)
	}
	return os.Readlink(s.local)
}

// streamWindow is how much of standard input is kept until it is committed.
const streamWindow = 16 << 20

// open returns the content.
func (s *source) open(ctx context.Context) (io.ReaderAt, func(), error) {
	switch {
	case s.stream != nil:
		return nfsclient.NewWindow(&ctxReader{ctx, s.stream}, streamWindow), func() {}, nil
	case s.node != nil:
		data := s.client.Source(ctx, s.node)
		if s.sparse {
			data = nfsclient.SparseSource{ReaderAt: data}
		}
		return data, func() {}, nil
	}
	f, err := os.Open(s.local)
	if err != nil {
		return nil, nil, err
	}
	done := func() { _ = f.Close() } // it was only read
	if s.sparse {
		return nfsclient.SparseSource{ReaderAt: skipHoles(f, s.size)}, done, nil
	}
	return f, done, nil
}

// complete checks that the whole file was copied.
func (s *source) complete(done int64) error {
	if s.stream == nil && done < s.size {
		return fmt.Errorf("%s: %w", s.show, errChanged)
	}
	return nil
}

// remoteDir is a directory on a server.
type remoteDir struct {
	c     *nfsclient.Client
	n     *nfsclient.Node
	fresh bool // this run has made it: nothing was in it before
}

func (d *remoteDir) show() string { return d.n.Path }
func (d *remoteDir) close()       {}

// inside implements target.
func (d *remoteDir) inside(src *source) bool {
	return src.node != nil && src.client == d.c &&
		(d.n.Path == src.node.Path || strings.HasPrefix(d.n.Path, strings.TrimSuffix(src.node.Path, "/")+"/"))
}

// is implements target.
func (d *remoteDir) is(src *source) bool {
	return src.id != 0 && src.id == d.n.Attr.FileID && src.name == d.n.Name() &&
		(src.node == nil || src.node.Attr.FSID == d.n.Attr.FSID)
}

// old implements target.
func (d *remoteDir) old(ctx context.Context, name string, src *source) (*existing, error) {
	if d.fresh {
		return nil, nil //nolint:nilnil // documented
	}
	n, err := d.c.Child(ctx, d.n, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // documented
	}
	if err != nil {
		return nil, err
	}
	same := src.node != nil && src.client == d.c && src.node.Attr.FileID == n.Attr.FileID && src.node.Attr.FSID == n.Attr.FSID
	return &existing{mode: n.Mode(), size: n.Size(), stamp: stamp{n.ModTime(), n.Attr.Ctime.Time()}, same: same}, nil
}

// create implements target.
func (d *remoteDir) create(ctx context.Context, name string, mode fs.FileMode, resume bool, src *source, old *existing) (partFile, error) {
	if old != nil && !old.mode.IsRegular() && !isLink(old.mode) {
		return nil, &fs.PathError{Op: "write", Path: path.Join(d.n.Path, name), Err: errNotRegular}
	}
	part := partName(name)
	if resume && !d.fresh {
		n, err := d.c.Child(ctx, d.n, part)
		if err == nil && n.IsRegular() && !n.ModTime().Before(src.mtime) {
			return &remoteFile{d: d, n: n, part: part}, nil
		}
	}
	n, err := d.c.Create(ctx, d.n, part, uint32(mode), false)
	return &remoteFile{d: d, n: n, part: part}, err
}

// remoteFile is a partFile.
type remoteFile struct {
	d    *remoteDir
	n    *nfsclient.Node
	part string // its name
}

func (r *remoteFile) size() int64 { return r.n.Size() }

// fill implements partFile.
func (r *remoteFile) fill(ctx context.Context, c *copier, src *source, from int64) (size int64, err error) {
	data, done, err := src.open(ctx)
	if err != nil {
		return size, err
	}
	defer done()
	size, err = r.d.c.WriteRange(ctx, r.n, data, from, src.size, c.bar.counter())
	if err == nil && r.n.Size() > size {
		err = r.d.c.SetAttr(ctx, r.n, &nfs3.SetAttr{SetSize: true, Size: uint64(size)})
	}
	return size, err
}

// same implements partFile.
func (r *remoteFile) same(ctx context.Context, src *source, size int64) error {
	data, done, err := src.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	end, err := r.d.c.ReadTo(ctx, r.n, &comparer{r: data}, nil)
	return compared(end, size, err)
}

// set implements partFile.
func (r *remoteFile) set(ctx context.Context, want attrs) (attrs, error) {
	return setRemote(ctx, r.d.c, r.n, want)
}

// rename implements partFile.
func (r *remoteFile) rename(ctx context.Context, name string) error {
	return r.d.c.Rename(ctx, r.d.n, r.part, r.d.n, name)
}

// close implements partFile.
func (r *remoteFile) close(ctx context.Context, remove bool) error {
	if remove {
		_ = r.d.c.Remove(ctx, r.d.n, r.part) // the error of the copy counts
	}
	return nil
}

// symlink implements target. It replaces an existing link.
func (d *remoteDir) symlink(ctx context.Context, c *copier, src *source, to string) error {
	n, err := d.c.Symlink(ctx, d.n, src.name, to)
	if errors.Is(err, fs.ErrExist) {
		if c.keep {
			return nil
		}
		if old, lerr := d.c.Child(ctx, d.n, src.name); lerr != nil || !old.IsSymlink() {
			return err
		}
		if err := d.c.Remove(ctx, d.n, src.name); err != nil {
			return err
		}
		n, err = d.c.Symlink(ctx, d.n, src.name, to)
	}
	if err != nil || !c.preserve {
		return err
	}
	return c.keepAll(src, func(want attrs) (attrs, error) { return setRemote(ctx, d.c, n, want) })
}

// sub implements target.
func (d *remoteDir) sub(ctx context.Context, name string, mode fs.FileMode) (target, error) {
	n, err := d.c.Mkdir(ctx, d.n, name, uint32(mode.Perm()))
	fresh := err == nil
	if errors.Is(err, fs.ErrExist) {
		n, err = d.c.Lookup(ctx, path.Join(d.n.Path, name))
		if err == nil && !n.IsDir() {
			err = &fs.PathError{Op: "mkdir", Path: n.Path, Err: errNotDir}
		}
	}
	if err != nil {
		return nil, err
	}
	return &remoteDir{c: d.c, n: n, fresh: fresh}, nil
}

// finish implements target.
func (d *remoteDir) finish(ctx context.Context, c *copier, src *source) error {
	if c.preserve {
		return c.keepAll(src, func(want attrs) (attrs, error) { return setRemote(ctx, d.c, d.n, want) })
	}
	special := d.n.Mode() & modeBits &^ fs.ModePerm // of a directory that was there, or as the one above has it
	_, err := setRemote(ctx, d.c, d.n, attrs{mode: src.mode.Perm() | special, uid: -1, gid: -1})
	return err
}

// localDir is a local directory. Everything in it goes through an os.Root, so that no name or symbolic link
// from a server leads out of it.
type localDir struct {
	path   string
	root   *os.Root
	direct string // a pipe or a device that the user has named: it is written itself, "": none
}

// openLocal opens a directory that the user has named.
func openLocal(p string) (*localDir, error) {
	root, err := os.OpenRoot(p)
	if err != nil {
		return nil, argErr(p, p, err)
	}
	return &localDir{path: p, root: root}, nil
}

func (d *localDir) show() string            { return d.path }
func (d *localDir) inside(src *source) bool { return false }

// is implements target.
func (d *localDir) is(src *source) bool {
	if src.id == 0 || src.name != filepath.Base(d.path) {
		return false
	}
	st, err := d.root.Stat(".")
	return err == nil && inodeOf(st).id == src.id
}

// close implements target. All files written through it are closed.
func (d *localDir) close() { _ = d.root.Close() }

// old implements target.
func (d *localDir) old(_ context.Context, name string, _ *source) (*existing, error) {
	st, err := d.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // documented
	}
	if err != nil {
		return nil, d.fail(name, err)
	}
	return &existing{mode: st.Mode(), size: st.Size(), stamp: stamp{st.ModTime(), inodeOf(st).ctime}}, nil
}

// create implements target.
func (d *localDir) create(_ context.Context, name string, mode fs.FileMode, resume bool, src *source, _ *existing) (partFile, error) {
	if name == d.direct {
		f, err := os.OpenFile(filepath.Join(d.path, name), os.O_WRONLY, 0)
		return &localFile{d: d, f: f}, err
	}
	part := partName(name)
	if resume {
		if st, err := d.root.Lstat(part); err == nil && st.Mode().IsRegular() && !st.ModTime().Before(src.mtime) {
			f, err := d.root.OpenFile(part, os.O_RDWR, 0)
			return &localFile{d: d, f: f, part: part, there: st.Size()}, err
		}
	}
	for {
		f, err := d.root.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
		if !errors.Is(err, fs.ErrExist) {
			return &localFile{d: d, f: f, part: part}, err
		}
		if err := d.root.Remove(part); err != nil { // never followed: it may be somebody else's link
			return nil, d.fail(part, err)
		}
	}
}

// fail adds the path of the directory to an error.
func (d *localDir) fail(name string, err error) error {
	return fmt.Errorf("%s: %w", filepath.Join(d.path, name), bare(err))
}

// localFile is a partFile.
type localFile struct {
	d     *localDir
	f     *os.File
	part  string // its name; "": it is no part, but a pipe or a device
	there int64  // its size at first
}

func (l *localFile) size() int64 { return l.there }

// fill implements partFile.
func (l *localFile) fill(ctx context.Context, c *copier, src *source, from int64) (int64, error) {
	if l.part == "" {
		w := nfsclient.NewOrderedWriter(ctx, l.f, 0)
		defer w.Close()
		size, err := src.client.ReadTo(ctx, src.node, w, c.bar.counter())
		return size, err
	}
	var w io.WriterAt = l.f
	if src.sparse {
		w = &nfsclient.SparseSink{WriterAt: l.f, From: l.there}
	}
	size, err := src.client.ReadRange(ctx, src.node, w, from, c.bar.counter())
	if err == nil && (l.there > size || src.sparse) {
		err = l.f.Truncate(size)
	}
	return size, err
}

// same implements partFile.
func (l *localFile) same(ctx context.Context, src *source, size int64) error {
	if l.part == "" {
		return nil
	}
	end, err := src.client.ReadTo(ctx, src.node, &comparer{r: l.f}, nil)
	return compared(end, size, err)
}

// set implements partFile.
func (l *localFile) set(_ context.Context, want attrs) (attrs, error) {
	if l.part == "" {
		return want, nil
	}
	return setLocal(l.f, l.d.root, l.part, want)
}

// rename implements partFile. A file that cannot be closed is not complete.
func (l *localFile) rename(_ context.Context, name string) error {
	if err := l.close(context.Background(), false); err != nil || l.part == "" {
		return err
	}
	if err := l.d.root.Rename(l.part, name); err != nil {
		return l.d.fail(name, err)
	}
	return nil
}

// close implements partFile.
func (l *localFile) close(_ context.Context, remove bool) error {
	var err error
	if l.f != nil {
		err = l.f.Close()
		l.f = nil
	}
	if remove && l.part != "" {
		_ = l.d.root.Remove(l.part) // the error of the copy counts
	}
	return err
}

// symlink implements target. It replaces an existing link.
func (d *localDir) symlink(_ context.Context, c *copier, src *source, to string) error {
	err := d.root.Symlink(to, src.name)
	if errors.Is(err, fs.ErrExist) {
		if c.keep {
			return nil
		}
		if st, serr := d.root.Lstat(src.name); serr != nil || !isLink(st.Mode()) {
			return err
		}
		if err := d.root.Remove(src.name); err != nil {
			return err
		}
		err = d.root.Symlink(to, src.name)
	}
	if err != nil || !c.preserve {
		return err
	}
	return c.keepAll(src, func(want attrs) (attrs, error) { return setLocalLink(d.root, src.name, want) })
}

// sub implements target.
func (d *localDir) sub(_ context.Context, name string, mode fs.FileMode) (target, error) {
	if err := d.root.Mkdir(name, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, d.fail(name, err)
	}
	root, err := d.root.OpenRoot(name)
	if err != nil {
		return nil, d.fail(name, err)
	}
	return &localDir{path: filepath.Join(d.path, name), root: root}, nil
}

// finish implements target.
func (d *localDir) finish(_ context.Context, c *copier, src *source) error {
	if !c.preserve {
		return nil
	}
	f, err := d.root.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	return c.keepAll(src, func(want attrs) (attrs, error) { return setLocal(f, d.root, ".", want) })
}

var (
	_ target = (*localDir)(nil)
	_ target = (*remoteDir)(nil)
)

// ctxReader is a reader whose Read ends with its context, so that an interrupt ends a command
// that waits for standard input. After the first error the abandoned Read may still write into
// its buffer, so the caller must not use that buffer or read again.
type ctxReader struct {
	ctx context.Context //nolint:containedctx // io.Reader takes no context
	r   io.Reader
}

// Read implements io.Reader.
func (c *ctxReader) Read(p []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() {
		n, err := c.r.Read(p)
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		return r.n, r.err
	case <-c.ctx.Done():
		return 0, context.Cause(c.ctx)
	}
}
