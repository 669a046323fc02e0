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
	// fresh reports whether this run has made it on a server: nothing was in it before.
	fresh() bool
	// find describes what has a name, nil if nothing has.
	find(ctx context.Context, name string) (*source, error)
	// open opens a file that find has described, and create makes one.
	open(f *source) (partFile, error)
	create(ctx context.Context, name string, mode fs.FileMode) (partFile, error)
	// symlink makes a symbolic link. It does not replace anything.
	symlink(ctx context.Context, name, to string) (setter, error)
	rename(ctx context.Context, from, to string) error
	remove(ctx context.Context, name string) error
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
	return localFileInfo(p, st), nil
}

func localFileInfo(p string, st fs.FileInfo) *source {
	return &source{name: filepath.Base(p), show: p, mode: st.Mode(), size: st.Size(), mtime: st.ModTime(), inode: inodeOf(st), local: p}
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
	c    *nfsclient.Client
	n    *nfsclient.Node
	made bool // by this run
}

func (d *remoteDir) show() string { return d.n.Path }
func (d *remoteDir) fresh() bool  { return d.made }
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

// find implements target.
func (d *remoteDir) find(ctx context.Context, name string) (*source, error) {
	n, err := d.c.Child(ctx, d.n, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // documented
	}
	if err != nil {
		return nil, err
	}
	return remoteSource(d.c, n), nil
}

// open implements target.
func (d *remoteDir) open(f *source) (partFile, error) { return &remoteFile{d.c, f.node}, nil }

// create implements target.
func (d *remoteDir) create(ctx context.Context, name string, mode fs.FileMode) (partFile, error) {
	n, err := d.c.Create(ctx, d.n, name, uint32(mode), false)
	return &remoteFile{d.c, n}, err
}

// symlink implements target.
func (d *remoteDir) symlink(ctx context.Context, name, to string) (setter, error) {
	n, err := d.c.Symlink(ctx, d.n, name, to)
	return (&remoteFile{d.c, n}).set, err
}

// rename implements target.
func (d *remoteDir) rename(ctx context.Context, from, to string) error {
	return d.c.Rename(ctx, d.n, from, d.n, to)
}

// remove implements target.
func (d *remoteDir) remove(ctx context.Context, name string) error { return d.c.Remove(ctx, d.n, name) }

// remoteFile is a file on a server.
type remoteFile struct {
	c *nfsclient.Client
	n *nfsclient.Node
}

func (r *remoteFile) close() error { return nil }
func (r *remoteFile) size() int64  { return r.n.Size() }

// fill implements partFile.
func (r *remoteFile) fill(ctx context.Context, c *copier, src *source, from int64) (size int64, err error) {
	data, done, err := src.open(ctx)
	if err != nil {
		return size, err
	}
	defer done()
	size, err = r.c.WriteFrom(ctx, r.n, data, from, src.size, c.bar.counter())
	if err == nil && r.n.Size() > size {
		err = r.c.SetAttr(ctx, r.n, &nfs3.SetAttr{SetSize: true, Size: uint64(size)})
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
	end, err := r.c.ReadTo(ctx, r.n, &comparer{r: data}, 0, nil)
	return compared(end, size, err)
}

// sub implements target.
func (d *remoteDir) sub(ctx context.Context, name string, mode fs.FileMode) (target, error) {
	n, err := d.c.Mkdir(ctx, d.n, name, uint32(mode.Perm()))
	made := err == nil
	if errors.Is(err, fs.ErrExist) {
		n, err = d.c.Lookup(ctx, path.Join(d.n.Path, name))
		if err == nil && !n.IsDir() {
			err = &fs.PathError{Op: "mkdir", Path: n.Path, Err: errNotDir}
		}
	}
	if err != nil {
		return nil, err
	}
	return &remoteDir{c: d.c, n: n, made: made}, nil
}

// finish implements target.
func (d *remoteDir) finish(ctx context.Context, c *copier, src *source) error {
	own := remoteFile{d.c, d.n}
	if c.preserve {
		return c.keepAll(ctx, src, own.set)
	}
	special := d.n.Mode() & modeBits &^ fs.ModePerm // of a directory that was there, or as the one above has it
	_, err := own.set(ctx, attrs{mode: src.mode.Perm() | special, uid: -1, gid: -1})
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
func (d *localDir) fresh() bool             { return false }
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

// find implements target.
func (d *localDir) find(_ context.Context, name string) (*source, error) {
	st, err := d.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // documented
	}
	if err != nil {
		return nil, d.fail(name, err)
	}
	return localFileInfo(filepath.Join(d.path, name), st), nil
}

// open implements target.
func (d *localDir) open(f *source) (partFile, error) {
	file, err := d.root.OpenFile(f.name, os.O_RDWR, 0)
	return &localFile{d: d, f: file, name: f.name, there: f.size}, err
}

// create implements target.
func (d *localDir) create(_ context.Context, name string, mode fs.FileMode) (partFile, error) {
	if d.direct != "" {
		f, err := os.OpenFile(filepath.Join(d.path, d.direct), os.O_WRONLY, 0)
		return &localFile{d: d, f: f}, err
	}
	for {
		f, err := d.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
		if !errors.Is(err, fs.ErrExist) {
			return &localFile{d: d, f: f, name: name}, err
		}
		if err := d.root.Remove(name); err != nil { // never followed: it may be somebody else's link
			return nil, d.fail(name, err)
		}
	}
}

// symlink implements target.
func (d *localDir) symlink(_ context.Context, name, to string) (setter, error) {
	set := func(_ context.Context, want attrs) (attrs, error) { return setLocalLink(d.root, name, want) }
	return set, d.root.Symlink(to, name)
}

// rename implements target.
func (d *localDir) rename(_ context.Context, from, to string) error {
	if d.direct != "" {
		return nil
	}
	if err := d.root.Rename(from, to); err != nil {
		return d.fail(to, err)
	}
	return nil
}

// remove implements target.
func (d *localDir) remove(_ context.Context, name string) error {
	if d.direct != "" {
		return nil
	}
	return d.root.Remove(name)
}

// fail adds the path of the directory to an error.
func (d *localDir) fail(name string, err error) error {
	return fmt.Errorf("%s: %w", filepath.Join(d.path, name), bare(err))
}

// localFile is a local file.
type localFile struct {
	d     *localDir
	f     *os.File
	name  string // "": it is a pipe or a device
	there int64  // its size at first
}

func (l *localFile) close() error { return l.f.Close() }

func (l *localFile) size() int64 { return l.there }

// fill implements partFile.
func (l *localFile) fill(ctx context.Context, c *copier, src *source, from int64) (int64, error) {
	if l.name == "" {
		w := nfsclient.NewOrderedWriter(ctx, l.f, 0)
		defer w.Close()
		return src.client.ReadTo(ctx, src.node, w, 0, c.bar.counter())
	}
	var w io.WriterAt = l.f
	if src.sparse {
		w = &nfsclient.SparseSink{WriterAt: l.f, From: l.there}
	}
	size, err := src.client.ReadTo(ctx, src.node, w, from, c.bar.counter())
	if err == nil && (l.there > size || src.sparse) {
		err = l.f.Truncate(size)
	}
	return size, err
}

// same implements partFile.
func (l *localFile) same(ctx context.Context, src *source, size int64) error {
	if l.name == "" {
		return nil
	}
	end, err := src.client.ReadTo(ctx, src.node, &comparer{r: l.f}, 0, nil)
	return compared(end, size, err)
}

// set implements partFile.
func (l *localFile) set(_ context.Context, want attrs) (attrs, error) {
	if l.name == "" {
		return want, nil
	}
	return setLocal(l.f, l.d.root, l.name, want)
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
func (d *localDir) finish(ctx context.Context, c *copier, src *source) error {
	if !c.preserve {
		return nil
	}
	f, err := d.root.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	return c.keepAll(ctx, src, (&localFile{d: d, f: f, name: "."}).set)
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
