package juicefs

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/juicedata/juicefs/pkg/object"
)

// watched is an object store that says when it has no room. JuiceFS tries for minutes, and all it says then is EIO.
type watched struct {
	object.ObjectStorage
	mu   sync.Mutex
	full chan struct{} // closed when a Put has failed for want of room, and replaced
}

// Put writes an object.
func (s *watched) Put(ctx context.Context, key string, in io.Reader, getters ...object.AttrGetter) error {
	err := s.ObjectStorage.Put(ctx, key, in, getters...)
	if isFull(err) {
		s.mu.Lock()
		close(s.full)
		s.full = make(chan struct{})
		s.mu.Unlock()
	}
	return err
}

// next returns a channel that is closed at the next Put that finds no room.
func (s *watched) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.full
}

// isFull reports whether an object store has refused a Put for want of room: that of a disk, of HTTP (MinIO), or that of
// a quota (MinIO, Ceph).
func isFull(err error) bool {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return true
	}
	if e, ok := errors.AsType[interface {
		error
		HTTPStatusCode() int
	}](err); ok && e.HTTPStatusCode() == http.StatusInsufficientStorage {
		return true
	}
	e, ok := errors.AsType[interface {
		error
		ErrorCode() string
	}](err)
	return ok && (e.ErrorCode() == "QuotaExceeded" || e.ErrorCode() == "XMinioAdminBucketQuotaExceeded")
}

// syncedDir is JuiceFS's object store in a directory, which never syncs, with a Put that does.
type syncedDir struct {
	object.ObjectStorage
	root string // as in Format.Bucket, a prefix
}

// Put writes an object. It is durable when Put returns.
func (s *syncedDir) Put(_ context.Context, key string, in io.Reader, _ ...object.AttrGetter) error {
	name := filepath.Clean(s.root + key)
	if strings.HasSuffix(key, "/") {
		return mkdir(name)
	}
	dir := filepath.Dir(name)
	tmp, err := os.CreateTemp(dir, ".put")
	if errors.Is(err, fs.ErrNotExist) {
		if err := mkdir(dir); err != nil {
			return err
		}
		tmp, err = os.CreateTemp(dir, ".put")
	}
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // it was renamed
	_, err = io.Copy(tmp, in)
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), name); err != nil {
		return err
	}
	return syncDir(dir)
}

// mkdir makes a directory and those above it; they are durable when it returns.
func mkdir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	up := filepath.Dir(dir)
	if err := mkdir(up); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(up)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
