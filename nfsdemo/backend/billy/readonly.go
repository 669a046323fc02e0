package billy

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/go-git/go-billy/v5"
)

// ReadOnly returns fsys as a go-billy file system that cannot be changed: an embed.FS, a zip.Reader, an
// os.DirFS. Files that do not implement [io.ReaderAt] are read from their start for every READ.
func ReadOnly(fsys fs.FS) billy.Filesystem { return &readOnly{fsys} }

type readOnly struct{ fs.FS }

// clean makes a path of go-billy one of io/fs.
func clean(p string) string {
	p = path.Clean("/" + p)[1:]
	if p == "" {
		return "."
	}
	return p
}

func (r *readOnly) Capabilities() billy.Capability {
	return billy.ReadCapability | billy.SeekCapability
}

func (r *readOnly) Open(name string) (billy.File, error) { return r.OpenFile(name, os.O_RDONLY, 0) }

func (r *readOnly) OpenFile(name string, flag int, _ os.FileMode) (billy.File, error) {
	if flag&(os.O_WRONLY|os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND) != 0 {
		return nil, billy.ErrReadOnly
	}
	f, err := r.FS.Open(clean(name))
	if err != nil {
		return nil, err
	}
	return &readOnlyFile{f, r, name}, nil
}

func (r *readOnly) Stat(name string) (os.FileInfo, error)  { return fs.Stat(r.FS, clean(name)) }
func (r *readOnly) Lstat(name string) (os.FileInfo, error) { return fs.Lstat(r.FS, clean(name)) }
func (r *readOnly) Readlink(name string) (string, error)   { return fs.ReadLink(r.FS, clean(name)) }
func (r *readOnly) Join(elem ...string) string             { return path.Join(elem...) }
func (r *readOnly) Root() string                           { return "/" }

// ReadDir leaves out names that vanish meanwhile.
func (r *readOnly) ReadDir(name string) ([]os.FileInfo, error) {
	entries, err := fs.ReadDir(r.FS, clean(name))
	if err != nil {
		return nil, err
	}
	var list []os.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, info)
	}
	return list, nil
}

func (r *readOnly) Chroot(p string) (billy.Filesystem, error) {
	sub, err := fs.Sub(r.FS, clean(p))
	if err != nil {
		return nil, err
	}
	return ReadOnly(sub), nil
}

func (r *readOnly) Create(string) (billy.File, error)           { return nil, billy.ErrReadOnly }
func (r *readOnly) TempFile(string, string) (billy.File, error) { return nil, billy.ErrReadOnly }
func (r *readOnly) Rename(string, string) error                 { return billy.ErrReadOnly }
func (r *readOnly) Remove(string) error                         { return billy.ErrReadOnly }
func (r *readOnly) MkdirAll(string, os.FileMode) error          { return billy.ErrReadOnly }
func (r *readOnly) Symlink(string, string) error                { return billy.ErrReadOnly }

// readOnlyFile is an open file.
type readOnlyFile struct {
	fs.File
	r    *readOnly
	name string
}

func (f *readOnlyFile) Name() string              { return f.name }
func (f *readOnlyFile) Write([]byte) (int, error) { return 0, billy.ErrReadOnly }
func (f *readOnlyFile) Truncate(int64) error      { return billy.ErrReadOnly }
func (f *readOnlyFile) Lock() error               { return nil }
func (f *readOnlyFile) Unlock() error             { return nil }

// Seek implements io.Seeker, if the file does.
func (f *readOnlyFile) Seek(off int64, whence int) (int64, error) {
	if s, ok := f.File.(io.Seeker); ok {
		return s.Seek(off, whence)
	}
	return 0, billy.ErrNotSupported
}

// ReadAt implements io.ReaderAt.
func (f *readOnlyFile) ReadAt(p []byte, off int64) (int, error) {
	if at, ok := f.File.(io.ReaderAt); ok {
		return at.ReadAt(p, off)
	}
	again, err := f.r.FS.Open(clean(f.name))
	if err != nil {
		return 0, err
	}
	defer again.Close()
	if _, err := io.CopyN(io.Discard, again, off); err != nil {
		return 0, err
	}
	n, err := io.ReadFull(again, p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

var _ billy.Filesystem = (*readOnly)(nil)
