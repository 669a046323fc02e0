package cli

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
)

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
