package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
)

// cleanUpTime limits the removal of an unfinished file.
const cleanUpTime = 2 * time.Second

// remoteDir is a directory on a server.
type remoteDir struct {
	c *nfsclient.Client
	n *nfsclient.Node
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

// put implements target. It truncates an existing file after the copy, not before: if the file
// is the source under another name, nothing is lost.
func (d *remoteDir) put(ctx context.Context, c *copier, name string, src *source) error {
	n, err := d.c.Create(ctx, d.n, name, uint32(src.mode.Perm()), true)
	created := err == nil
	if errors.Is(err, fs.ErrExist) {
		if c.keep {
			return nil
		}
		n, err = d.existing(ctx, name, src)
	}
	if err != nil {
		return err
	}
	err = d.fill(ctx, c, n, src)
	if err != nil && created {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
		defer cancel()
		_ = d.c.Remove(clean, d.n, name) // the first error counts
	}
	return err
}

// existing finds the file that has the name and checks that it can be replaced.
func (d *remoteDir) existing(ctx context.Context, name string, src *source) (*nfsclient.Node, error) {
	p := path.Join(d.n.Path, name)
	n, err := d.c.Lookup(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := mustBeFile(n); err != nil {
		return nil, &fs.PathError{Op: "write", Path: p, Err: err}
	}
	if src.node != nil && src.client == d.c && src.node.Attr.FileID == n.Attr.FileID && src.node.Attr.FSID == n.Attr.FSID {
		return nil, &fs.PathError{Op: "write", Path: p, Err: errSameFile}
	}
	return n, nil
}

// fill copies the content into n.
func (d *remoteDir) fill(ctx context.Context, c *copier, n *nfsclient.Node, src *source) error {
	data, done, err := src.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	c.bar.begin(src.name, src.size)
	how, err := d.write(ctx, c, n, data, src.size)
	if err != nil {
		return err
	}
	c.refused(d.c, how.Why)
	size := how.Size
	var change nfs3.SetAttr
	if n.Size() > size {
		change.SetSize, change.Size = true, uint64(size)
	}
	if c.preserve && src.stream == nil {
		change.SetMode, change.Mode = true, uint32(src.mode.Perm())
		change.MtimeHow, change.Mtime = nfs3.ClientTime, nfs3.TimeOf(src.mtime)
	}
	if !change.IsZero() {
		err = d.c.SetAttr(ctx, n, &change)
	}
	if err == nil {
		err = src.complete(size)
	}
	if err == nil {
		err = c.wrote(src, n.Path, &how)
	}
	return err
}

// write copies data into n, with --push by push.
func (d *remoteDir) write(ctx context.Context, c *copier, n *nfsclient.Node, data io.ReaderAt, size int64) (nfsclient.Pushed, error) {
	if c.push.on {
		return d.c.PushFrom(ctx, n, data, size, c.bar.counter())
	}
	done, err := d.c.WriteFrom(ctx, n, data, size, c.bar.counter())
	return nfsclient.Pushed{Size: done}, err
}

// symlink implements target. It replaces an existing link.
func (d *remoteDir) symlink(ctx context.Context, c *copier, name, to string) error {
	_, err := d.c.Symlink(ctx, d.n, name, to)
	if !errors.Is(err, fs.ErrExist) || c.keep {
		return keepExisting(err)
	}
	old, lerr := d.c.Child(ctx, d.n, name)
	if lerr != nil || !old.IsSymlink() {
		return err
	}
	if err := d.c.Remove(ctx, d.n, name); err != nil {
		return err
	}
	_, err = d.c.Symlink(ctx, d.n, name, to)
	return err
}

// keepExisting returns err, or nil if it is only that the name exists, which -n permits.
func keepExisting(err error) error {
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// sub implements target.
func (d *remoteDir) sub(ctx context.Context, name string, mode fs.FileMode) (target, error) {
	n, err := d.c.Mkdir(ctx, d.n, name, uint32(mode.Perm()))
	if errors.Is(err, fs.ErrExist) {
		n, err = d.c.Lookup(ctx, path.Join(d.n.Path, name))
		if err == nil && !n.IsDir() {
			err = &fs.PathError{Op: "mkdir", Path: n.Path, Err: errNotDir}
		}
	}
	if err != nil {
		return nil, err
	}
	return &remoteDir{c: d.c, n: n}, nil
}

// finish implements target.
func (d *remoteDir) finish(ctx context.Context, c *copier, src *source) error {
	var change nfs3.SetAttr
	if src.mode.Perm() != d.n.Mode().Perm() {
		change.SetMode, change.Mode = true, uint32(src.mode.Perm())
	}
	if c.preserve {
		change.MtimeHow, change.Mtime = nfs3.ClientTime, nfs3.TimeOf(src.mtime)
	}
	if change.IsZero() {
		return nil
	}
	return d.c.SetAttr(ctx, d.n, &change)
}
