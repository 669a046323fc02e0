package cli

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/push"
)

// secretFile is a file with the name of a push log and the secret that gives access to it: a line
// "log NAME" and a line "secret", 32 hexadecimal digits. It is locked as long as it is open,
// because only one process may append to a log.
type secretFile struct {
	f      *os.File
	path   string
	name   string
	secret push.Secret
}

// errSecretUsed reports that another process has locked the file.
var errSecretUsed = errors.New("another nfsdemo is using this push log: use another --push-secret FILE")

// openSecret opens the file, and makes it if it does not exist.
func openSecret(path string) (*secretFile, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		s := &secretFile{f: f, path: path}
		if err = lockFile(f); err == nil {
			err = s.read()
		}
		if err == nil && s.secret == (push.Secret{}) {
			s.name, s.secret = "nfsdemo-"+rand.Text(), push.NewSecret()
			err = s.keep()
		}
		if err == nil && s.named() {
			return s, nil
		}
		_ = f.Close() // nothing was written
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
}

// named reports whether the open file still has its name: the process that had it open before may
// have removed it.
func (s *secretFile) named() bool {
	own, err := s.f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(s.path)
	return err == nil && os.SameFile(own, there)
}

// read reads a file. If it is empty, there is no secret.
func (s *secretFile) read() error {
	st, err := s.f.Stat()
	switch {
	case err != nil:
		return err
	case !st.Mode().IsRegular():
		return errNotRegular
	case runtime.GOOS != "windows" && st.Mode().Perm()&0o077 != 0:
		return errors.New("others can read this secret: run chmod 600, or remove the file if the secret may be known")
	case st.Size() == 0:
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(s.f, 1024))
	if err != nil {
		return err
	}
	var digits string
	if n, err := fmt.Sscanf(string(b), "log %64s\nsecret %32s\n", &s.name, &digits); err != nil || n != 2 {
		return errNoSecret
	}
	var secret push.Secret
	if n, err := hex.Decode(secret[:], []byte(digits)); err != nil || n != len(secret) {
		return errNoSecret
	}
	s.secret = secret
	return nil
}

var errNoSecret = errors.New("holds no secret of a push log: use another --push-secret FILE; an empty or new one gets a new log")

// keep makes the secret of a new log durable, before it is used.
func (s *secretFile) keep() error {
	if _, err := s.f.WriteAt(fmt.Appendf(nil, "log %s\nsecret %x\n", s.name, s.secret[:]), 0); err != nil {
		return err
	}
	if err := s.f.Sync(); err != nil {
		return err
	}
	return pmem.SyncDir(filepath.Dir(s.path))
}

// close unlocks the log for other processes.
func (s *secretFile) close() {
	_ = s.f.Close() // what was written is synced
}

// readSecret reads a file that another process may have locked: reading a log disturbs nobody.
func readSecret(path string) (*secretFile, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: name the file of whoever appends to the log", err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := &secretFile{f: f, path: path}
	if err = s.read(); err == nil && s.secret == (push.Secret{}) {
		err = errNoSecret
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}
