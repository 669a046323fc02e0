package nfsclient

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"path"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// FS returns the export as a file system to read, for [fs.WalkDir], [net/http.FileServerFS] and whatever else
// takes one. It implements [fs.StatFS], [fs.ReadFileFS] and [fs.ReadLinkFS]; its files implement [io.ReaderAt],
// [io.Seeker] and [io.WriterTo], which reads ahead, and its directories are streamed. All calls use ctx. Symbolic links are followed inside the export.
func (c *Client) FS(ctx context.Context) fs.FS { return &fileSystem{ctx, c} }

// fileSystem is an export as an fs.FS.
type fileSystem struct {
	ctx context.Context //nolint:containedctx // fs.FS takes no context
	c   *Client
}

// find looks up a name.
func (f *fileSystem) find(op, name string, look func(context.Context, string) (*Node, error)) (*Node, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	n, err := look(f.ctx, path.Join(f.c.export, name))
	return n, nameErr(op, name, err)
}

// nameErr makes err one about the name that the caller knows, which is not that of the server.
func nameErr(op, name string, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// Open implements fs.FS.
func (f *fileSystem) Open(name string) (fs.File, error) {
	n, err := f.find("open", name, f.c.Lookup)
	if err != nil {
		return nil, err
	}
	if n.IsDir() {
		return &openDir{f: f, name: name, n: n}, nil
	}
	return &openFile{f: f, name: name, n: n}, nil
}

// Stat implements fs.StatFS.
func (f *fileSystem) Stat(name string) (fs.FileInfo, error) { return f.stat("stat", name, f.c.Lookup) }

// Lstat implements fs.ReadLinkFS.
func (f *fileSystem) Lstat(name string) (fs.FileInfo, error) {
	return f.stat("lstat", name, f.c.LookupLink)
}

func (f *fileSystem) stat(op, name string, look func(context.Context, string) (*Node, error)) (fs.FileInfo, error) {
	n, err := f.find(op, name, look)
	if err != nil {
		return nil, err
	}
	return &fileInfo{path.Base(name), n}, nil
}

// ReadLink implements fs.ReadLinkFS.
func (f *fileSystem) ReadLink(name string) (string, error) {
	n, err := f.find("readlink", name, f.c.LookupLink)
	if err != nil {
		return "", err
	}
	if !n.IsSymlink() {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	target, err := f.c.ReadLink(f.ctx, n)
	return target, nameErr("readlink", name, err)
}

// ReadFile implements fs.ReadFileFS. Memory grows with what arrives: a server may claim any size.
func (f *fileSystem) ReadFile(name string) ([]byte, error) {
	file, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	w, ok := file.(io.WriterTo)
	if !ok {
		return nil, &fs.PathError{Op: "read", Path: name, Err: &StatusError{Proc: nfs3.ProcRead, Status: nfs3.ErrIsDir}}
	}
	var b bytes.Buffer
	_, err = w.WriteTo(&b)
	return b.Bytes(), err
}

// fileInfo is an fs.FileInfo. Its name is that by which the file was found, perhaps through a link.
type fileInfo struct {
	name string
	n    *Node
}

func (i *fileInfo) Name() string       { return i.name }
func (i *fileInfo) Size() int64        { return i.n.Size() }
func (i *fileInfo) Mode() fs.FileMode  { return i.n.Mode() }
func (i *fileInfo) ModTime() time.Time { return i.n.ModTime() }
func (i *fileInfo) IsDir() bool        { return i.n.IsDir() }
func (i *fileInfo) Sys() any           { return &i.n.Attr }

// openFile is an open file. As with os.File, ReadAt may be called by several goroutines at a time.
type openFile struct {
	f      *fileSystem
	name   string
	n      *Node
	off    int64
	closed bool
}

// err returns an error about the file.
func (o *openFile) err(op string, err error) error { return nameErr(op, o.name, err) }

// usable returns an error after Close.
func (o *openFile) usable(op string) error {
	if o.closed {
		return &fs.PathError{Op: op, Path: o.name, Err: fs.ErrClosed}
	}
	return nil
}

// Stat implements fs.File: as the file is now.
func (o *openFile) Stat() (fs.FileInfo, error) {
	if err := o.usable("stat"); err != nil {
		return nil, err
	}
	n := *o.n
	if err := o.f.c.Refresh(o.f.ctx, &n); err != nil {
		return nil, o.err("stat", err)
	}
	return &fileInfo{path.Base(o.name), &n}, nil
}

// Read implements fs.File.
func (o *openFile) Read(p []byte) (int, error) {
	n, err := o.ReadAt(p, o.off)
	o.off += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil // the next Read says so
	}
	return n, err
}

// ReadAt implements io.ReaderAt.
func (o *openFile) ReadAt(p []byte, off int64) (int, error) {
	if err := o.usable("read"); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, &fs.PathError{Op: "read", Path: o.name, Err: fs.ErrInvalid}
	}
	n, err := o.f.c.ReadAt(o.f.ctx, o.n, p, off)
	return n, o.err("read", err)
}

// Seek implements io.Seeker.
func (o *openFile) Seek(off int64, whence int) (int64, error) {
	if err := o.usable("seek"); err != nil {
		return 0, err
	}
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		off += o.off
	case io.SeekEnd:
		st, err := o.Stat()
		if err != nil {
			return 0, err
		}
		off += st.Size()
	default:
		off = -1
	}
	if off < 0 {
		return 0, &fs.PathError{Op: "seek", Path: o.name, Err: fs.ErrInvalid}
	}
	o.off = off
	return off, nil
}

// WriteTo implements io.WriterTo, with several READs in flight.
func (o *openFile) WriteTo(w io.Writer) (int64, error) {
	if err := o.usable("read"); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(o.f.ctx)
	defer cancel()
	out := NewOrderedWriter(ctx, w, o.off)
	defer out.Close()
	from := o.off
	end, err := o.f.c.ReadTo(ctx, o.n, out, from, nil)
	o.off = max(end, from)
	return o.off - from, o.err("read", err)
}

// Close implements fs.File. There is nothing to close on the server.
func (o *openFile) Close() error {
	if err := o.usable("close"); err != nil {
		return err
	}
	o.closed = true
	return nil
}

// openDir is an open directory. Like a file of package os, it belongs to one goroutine at a time.
type openDir struct {
	f    *fileSystem
	name string
	n    *Node
	next func() (*Node, error, bool)
	stop func()
}

// Stat implements fs.File.
func (o *openDir) Stat() (fs.FileInfo, error) { return &fileInfo{path.Base(o.name), o.n}, nil }

// Read implements fs.File.
func (o *openDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: o.name, Err: &StatusError{Proc: nfs3.ProcRead, Status: nfs3.ErrIsDir}}
}

// ReadDir implements fs.ReadDirFile. With n <= 0 it takes up to 64 MiB, as Client.ReadDir does.
func (o *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if o.next == nil {
		o.next, o.stop = iter.Pull2(o.f.c.Entries(o.f.ctx, o.n))
	}
	var list []fs.DirEntry
	for size := 0; n <= 0 || len(list) < n; {
		node, err, ok := o.next()
		if !ok {
			break
		}
		if err != nil {
			return list, nameErr("readdir", o.name, err)
		}
		if size += node.memory(); size > maxReadDir {
			return list, nameErr("readdir", o.name, ErrDirLarge)
		}
		list = append(list, fs.FileInfoToDirEntry(&fileInfo{node.Name(), node}))
	}
	if n > 0 && len(list) == 0 {
		return nil, io.EOF
	}
	return list, nil
}

// Close implements fs.File.
func (o *openDir) Close() error {
	if o.stop != nil {
		o.stop()
	}
	return nil
}

var (
	_ fs.StatFS      = (*fileSystem)(nil)
	_ fs.ReadFileFS  = (*fileSystem)(nil)
	_ fs.ReadLinkFS  = (*fileSystem)(nil)
	_ fs.ReadDirFile = (*openDir)(nil)
	_ io.ReaderAt    = (*openFile)(nil)
	_ io.Seeker      = (*openFile)(nil)
	_ io.WriterTo    = (*openFile)(nil)
)
