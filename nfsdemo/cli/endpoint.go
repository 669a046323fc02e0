package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"time"

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
