package billy

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/go-git/go-billy/v5"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// regular returns what go-billy says about a regular file, and ErrInval for others. The file is in use.
func (n *node) regular() (*info, error) {
	info, err := n.stat()
	if err == nil && !info.Mode().IsRegular() {
		err = nfs3.ErrInval
	}
	return info, err
}

// ReadLink returns the target of a symbolic link.
func (n *node) ReadLink() (string, error) {
	u := &use{n: n}
	if err := n.fs.begin(u); err != nil {
		return "", err
	}
	defer n.fs.end(u)
	info, err := n.stat()
	if err != nil {
		return "", err
	}
	if info.Mode().Type() != fs.ModeSymlink {
		return "", nfs3.ErrInval
	}
	target, err := n.fs.under.Readlink(n.path())
	return target, status(err)
}

// Read reads a regular file.
func (n *node) Read(p []byte, off uint64) (int, error) {
	u := &use{n: n}
	if err := n.fs.begin(u); err != nil {
		return 0, err
	}
	defer n.fs.end(u)
	info, err := n.regular()
	if err != nil {
		return 0, err
	}
	if off >= uint64(max(info.Size(), 0)) || len(p) == 0 {
		return 0, nil
	}
	file, err := n.fs.under.Open(n.path())
	if err != nil {
		return 0, status(err)
	}
	defer file.Close()
	got, err := file.ReadAt(p, int64(off))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return got, status(err)
}

// Write writes a regular file.
func (n *node) Write(p []byte, off uint64, how nfs3.StableHow) (backend.WriteResult, error) {
	res := backend.WriteResult{Committed: how, Verf: n.fs.boot}
	u := &use{n: n}
	if err := n.fs.begin(u); err != nil {
		return res, err
	}
	defer n.fs.end(u)
	end := off + uint64(len(p))
	_, err := n.regular()
	switch {
	case err != nil:
		return res, err
	case n.fs.ro:
		return res, nfs3.ErrROFS
	case end < off || end > n.fs.cfg.MaxFileSize && len(p) > 0 || end > 1<<63-1:
		return res, nfs3.ErrFBig
	case len(p) == 0:
		return res, nil
	}
	n.note(func() { n.verf = nil })
	res.N, err = n.change(func(file billy.File) (int, error) {
		done, err := writeAt(file, p, int64(off))
		if err == nil && how != nfs3.Unstable {
			err = flush(file)
		}
		return done, err
	})
	return res, err
}

// change opens the file to be written.
func (n *node) change(f func(billy.File) (int, error)) (int, error) {
	file, err := n.fs.under.OpenFile(n.path(), os.O_RDWR, 0)
	if err != nil {
		return 0, status(err)
	}
	now := time.Now()
	n.note(func() { n.mtime = now })
	done, err := f(file)
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	return done, status(err)
}

// writeAt writes p at off, which may be behind the end.
func writeAt(file billy.File, p []byte, off int64) (int, error) {
	if w, ok := file.(io.WriterAt); ok {
		return w.WriteAt(p, off)
	}
	if _, err := file.Seek(off, io.SeekStart); err != nil {
		return 0, err
	}
	return file.Write(p)
}

// flush makes a file durable, if it can.
func flush(file billy.File) error {
	if s, ok := file.(interface{ Sync() error }); ok {
		return s.Sync()
	}
	return nil
}

// truncate sets the size. The file is in use.
func (n *node) truncate(mode fs.FileMode, size uint64) error {
	switch {
	case mode.IsDir():
		return nfs3.ErrIsDir
	case !mode.IsRegular():
		return nfs3.ErrInval
	case size > n.fs.cfg.MaxFileSize || size > 1<<63-1:
		return nfs3.ErrFBig
	}
	_, err := n.change(func(file billy.File) (int, error) {
		if err := file.Truncate(int64(size)); err != nil {
			return 0, err
		}
		return 0, flush(file)
	})
	return err
}

// Commit makes the data durable.
func (n *node) Commit(uint64, uint32) (nfs3.WriteVerf, error) {
	u := &use{n: n}
	if err := n.fs.begin(u); err != nil {
		return n.fs.boot, err
	}
	defer n.fs.end(u)
	if _, err := n.regular(); err != nil || n.fs.ro {
		return n.fs.boot, err
	}
	file, err := n.fs.under.OpenFile(n.path(), os.O_RDWR, 0)
	if err != nil {
		return n.fs.boot, status(err)
	}
	return n.fs.boot, status(errors.Join(flush(file), file.Close()))
}
