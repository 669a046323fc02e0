package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// localDir is a local directory. The path that the user named is opened as it is. In directories
// copied from a server everything goes through an os.Root, so that no name or symbolic link from
// the server leads out of them.
type localDir struct {
	path string
	root *os.Root // nil for the directory that the user named
}

func (d *localDir) show() string            { return d.path }
func (d *localDir) inside(src *source) bool { return false }

// is implements target.
func (d *localDir) is(src *source) bool {
	if d.root == nil || src.id == 0 || src.name != filepath.Base(d.path) {
		return false
	}
	st, err := d.root.Stat(".")
	return err == nil && fileID(st) == src.id
}

// close implements target.
func (d *localDir) close() {
	if d.root != nil {
		_ = d.root.Close() // all files written through it are closed
	}
}

// openFile opens name in d.
func (d *localDir) openFile(name string, flag int, mode fs.FileMode) (*os.File, error) {
	if d.root != nil {
		return d.root.OpenFile(name, flag, mode)
	}
	return os.OpenFile(filepath.Join(d.path, name), flag, mode)
}

// remove removes name in d.
func (d *localDir) remove(name string) error {
	if d.root != nil {
		return d.root.Remove(name)
	}
	return os.Remove(filepath.Join(d.path, name))
}

// put implements target.
func (d *localDir) put(ctx context.Context, c *copier, name string, src *source) (err error) {
	f, err := d.openFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, src.mode.Perm())
	created := err == nil
	if errors.Is(err, fs.ErrExist) {
		if c.keep {
			return nil
		}
		f, err = d.openFile(name, os.O_WRONLY, 0)
	}
	if err != nil {
		return err
	}
	err = d.fill(ctx, c, f, name, src)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil && created {
		_ = d.remove(name) // the first error counts
	}
	return err
}

// fill copies the content into f, which is name in d.
func (d *localDir) fill(ctx context.Context, c *copier, f *os.File, name string, src *source) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	c.bar.begin(src.name, src.size)
	size, err := src.client.ReadTo(ctx, src.node, f, c.bar.counter())
	if err != nil {
		return err
	}
	if st.Mode().IsRegular() && st.Size() > size {
		if err := f.Truncate(size); err != nil {
			return err
		}
	}
	if c.preserve {
		if err := d.attributes(f, name, src); err != nil {
			return err
		}
	}
	if err := src.complete(size); err != nil || !c.a.json {
		return err
	}
	return c.a.printJSON(copyJSON{Source: src.show, Path: f.Name(), Octets: size})
}

// attributes gives f, which is name in d, the mode and time of src.
func (d *localDir) attributes(f *os.File, name string, src *source) error {
	if err := f.Chmod(src.mode.Perm()); err != nil {
		return err
	}
	if d.root != nil {
		return d.root.Chtimes(name, src.mtime, src.mtime)
	}
	return os.Chtimes(f.Name(), src.mtime, src.mtime)
}

// symlink implements target. It replaces an existing link.
func (d *localDir) symlink(_ context.Context, c *copier, name, to string) error {
	link := func() error { return os.Symlink(to, filepath.Join(d.path, name)) }
	stat := func() (fs.FileInfo, error) { return os.Lstat(filepath.Join(d.path, name)) }
	if d.root != nil {
		link = func() error { return d.root.Symlink(to, name) }
		stat = func() (fs.FileInfo, error) { return d.root.Lstat(name) }
	}
	err := link()
	if !errors.Is(err, fs.ErrExist) || c.keep {
		return keepExisting(err)
	}
	if st, serr := stat(); serr != nil || !isLink(st.Mode()) {
		return err
	}
	if err := d.remove(name); err != nil {
		return err
	}
	return link()
}

// sub implements target.
func (d *localDir) sub(_ context.Context, name string, mode fs.FileMode) (target, error) {
	p := filepath.Join(d.path, name)
	var err error
	if d.root != nil {
		err = d.root.Mkdir(name, mode)
	} else {
		err = os.Mkdir(p, mode)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	var root *os.Root
	if d.root != nil {
		root, err = d.root.OpenRoot(name)
	} else {
		root, err = os.OpenRoot(p)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p, bare(err))
	}
	return &localDir{path: p, root: root}, nil
}

// finish implements target.
func (d *localDir) finish(_ context.Context, c *copier, src *source) error {
	if d.root == nil || !c.preserve {
		return nil
	}
	if err := d.root.Chmod(".", src.mode.Perm()); err != nil {
		return err
	}
	return d.root.Chtimes(".", src.mtime, src.mtime)
}

var (
	_ target = (*localDir)(nil)
	_ target = (*remoteDir)(nil)
)
