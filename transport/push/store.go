package push

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// Owner is the SHA-256 of a secret, which the server keeps. It grants no access.
type Owner [sha256.Size]byte

// ownerOf returns the digest of a secret.
func ownerOf(s *Secret) Owner { return sha256.Sum256(s[:]) }

// Origin says for whom a log was made.
type Origin struct {
	Owner Owner
	Host  string // whose share the log takes (a result of peeraddr.Share), "" if unknown: see Limits.MaxLogs
}

// Store keeps the logs of a server. The server never calls two methods at the same time for the
// same name, and Tidy before all others.
type Store interface {
	// Create makes a log of size octets for whom from names. It calls format with the zeroed memory of the
	// log. The log exists, durably, once Create has returned nil, and not before. Remains of an
	// attempt that a crash interrupted do not get in the way.
	Create(name string, size int, from Origin, format func(region.Memory) error) error
	// Open returns the memory of a log, which is lent until it is closed, and its origin.
	Open(name string) (region.Memory, Origin, error)
	// Names returns the names of all logs.
	Names() ([]string, error)
	// Tidy removes what interrupted attempts have left if it is sure that no record was ever appended there,
	// moves the rest aside, and returns how many such files there are now.
	Tidy() (aside int, err error)
}

const nameOctets = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

// possible reports whether a log can have this name. Such a name is safe as the name of a file.
func possible(name string) bool {
	return len(name) > 0 && len(name) <= maxName && name[0] != '.' && strings.Trim(name, nameOctets) == ""
}

// Dir returns a Store that keeps each log in two files of an existing directory: NAME.log, memory
// of the given kind, and NAME.owner: the 32 octets of the digest of the secret, and then the host
// that the log was made for. Only the server's user can read them. A log without an owner was left by a crash: it
// is removed if nobody can have appended to it, and otherwise renamed to NAME.log.aside.
func Dir(path string, kind pmem.Kind) Store { return &dir{path, kind} }

type dir struct {
	path string
	kind pmem.Kind
}

const (
	logSuffix   = ".log"
	ownerSuffix = ".owner"
	asideSuffix = ".aside"
	maxHost     = 255 // octets
)

func (d *dir) file(name, suffix string) string { return filepath.Join(d.path, name+suffix) }

// Create implements Store. The owner comes last, by a rename: only then does the log count.
func (d *dir) Create(name string, size int, from Origin, format func(region.Memory) error) error {
	if _, err := os.Lstat(d.file(name, ownerSuffix)); err == nil {
		return fs.ErrExist
	}
	if err := d.clear(name); err != nil {
		return err
	}
	path := d.file(name, logSuffix)
	if err := pmem.Create(path, size, nil); err != nil {
		return err
	}
	mem, err := pmem.Open(d.kind, path, nil)
	if err != nil {
		return err
	}
	if err := errors.Join(format(mem), mem.Close()); err != nil {
		return err
	}
	return d.writeOwner(name, append(from.Owner[:], from.Host[:min(len(from.Host), maxHost)]...))
}

// clear makes room for a log where there is none with an owner.
func (d *dir) clear(name string) error {
	path := d.file(name, logSuffix)
	switch empty, err := d.empty(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case empty:
		err = os.Remove(path)
		return errors.Join(err, pmem.SyncDir(d.path))
	}
	aside := path + asideSuffix
	for n := 2; ; n++ {
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			break
		}
		aside = fmt.Sprintf("%s%s%d", path, asideSuffix, n)
	}
	return errors.Join(os.Rename(path, aside), pmem.SyncDir(d.path))
}

// empty reports whether it is sure that nobody has appended to the log in a file: no session has begun, or its
// creation was not finished.
func (d *dir) empty(path string) (bool, error) {
	fi, err := os.Lstat(path)
	if err != nil {
		return false, err
	}
	if fi.Size() == 0 || !fi.Mode().IsRegular() {
		return fi.Mode().IsRegular(), nil
	}
	mem, err := pmem.Open(d.kind, path, nil)
	switch {
	case errors.Is(err, pmem.ErrLocked):
		return false, err // of another server
	case err != nil:
		return false, nil
	}
	defer mem.Close() //nolint:errcheck // nothing was written
	b := mem.Bytes()
	return commitlog.Unused(bytes.NewReader(b), int64(len(b))), nil
}

// Tidy implements Store.
func (d *dir) Tidy() (aside int, err error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, e := range entries {
		name, log := strings.CutSuffix(e.Name(), logSuffix)
		switch {
		case strings.HasPrefix(e.Name(), ".") && strings.Contains(e.Name(), ownerSuffix+"-"):
			errs = append(errs, os.Remove(filepath.Join(d.path, e.Name()))) // never got its name
		case strings.Contains(e.Name(), logSuffix+asideSuffix):
			aside++
		case log && possible(name):
			if _, err := os.Lstat(d.file(name, ownerSuffix)); !errors.Is(err, fs.ErrNotExist) {
				continue
			}
			errs = append(errs, d.clear(name))
			if _, err := os.Lstat(d.file(name, logSuffix) + asideSuffix); err == nil {
				aside++
			}
		}
	}
	return aside, errors.Join(errs...)
}

func (d *dir) writeOwner(name string, b []byte) error {
	f, err := os.CreateTemp(d.path, "."+name+".owner-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // after the rename the name does not exist
	_, err = f.Write(b)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), d.file(name, ownerSuffix)); err != nil {
		return err
	}
	return pmem.SyncDir(d.path)
}

// Open implements Store.
func (d *dir) Open(name string) (region.Memory, Origin, error) {
	from, err := d.readOwner(name)
	if err != nil {
		return nil, from, err
	}
	mem, err := pmem.Open(d.kind, d.file(name, logSuffix), nil)
	if err != nil {
		return nil, from, err
	}
	return mem, from, nil
}

// readOwner returns what writeOwner has written.
func (d *dir) readOwner(name string) (from Origin, err error) {
	b, err := os.ReadFile(d.file(name, ownerSuffix))
	if err != nil {
		return from, err
	}
	if len(b) < len(from.Owner) || len(b) > len(from.Owner)+maxHost {
		return from, fmt.Errorf("push: %s is damaged: it should have 32 octets and then an address (restore it from a copy)",
			d.file(name, ownerSuffix))
	}
	copy(from.Owner[:], b)
	from.Host = string(b[len(from.Owner):])
	return from, nil
}

// Names implements Store.
func (d *dir) Names() ([]string, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ownerSuffix); ok && possible(name) {
			names = append(names, name)
		}
	}
	return names, nil
}
