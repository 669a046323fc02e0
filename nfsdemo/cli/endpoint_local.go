package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
)

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
