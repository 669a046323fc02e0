package push

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
)

// Dir returns a Store that keeps each log in two files of an existing directory: NAME.log, memory
// of the given kind, and NAME.owner: the 32 octets of the digest of the secret, and then the host
// that the log was made for. Only the server's user can read them. A log without an owner was left
// by a crash, and is created anew. It is a HostStore.
func Dir(path string, kind pmem.Kind) Store { return &dir{path, kind} }

type dir struct {
	path string
	kind pmem.Kind
}

var _ HostStore = (*dir)(nil)

const (
	logSuffix   = ".log"
	ownerSuffix = ".owner"
	maxHost     = 255 // octets
)

// LogFile returns the path of the file in which s keeps a log, or "" if s was not made by Dir.
func LogFile(s Store, name string) string {
	if d, ok := s.(*dir); ok {
		return d.file(name, logSuffix)
	}
	return ""
}

// RemoveLog durably removes a log from a directory that no server has open. It removes the owner first,
// without which the log does not count. The error is fs.ErrNotExist if neither file exists.
func RemoveLog(path, name string) error {
	if !possible(name) {
		return fs.ErrNotExist
	}
	found := false
	for _, suffix := range [...]string{ownerSuffix, logSuffix} {
		switch err := os.Remove(filepath.Join(path, name+suffix)); {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err
		}
		found = true
		if err := pmem.SyncDir(path); err != nil {
			return err
		}
	}
	if !found {
		return fs.ErrNotExist
	}
	return nil
}

func (d *dir) file(name, suffix string) string { return filepath.Join(d.path, name+suffix) }

// Create implements Store.
func (d *dir) Create(name string, size int, owner Owner, format func(region.Memory) error) error {
	return d.CreateFor("", name, size, owner, format)
}

// CreateFor implements HostStore. The owner comes last, by a rename: only then does the log count.
func (d *dir) CreateFor(host, name string, size int, owner Owner, format func(region.Memory) error) error {
	if _, err := os.Lstat(d.file(name, ownerSuffix)); err == nil {
		return fs.ErrExist
	}
	path := d.file(name, logSuffix)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
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
	return d.writeOwner(name, append(owner[:], host[:min(len(host), maxHost)]...))
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
func (d *dir) Open(name string) (region.Memory, Owner, error) {
	owner, _, err := d.readOwner(name)
	if err != nil {
		return nil, owner, err
	}
	mem, err := pmem.Open(d.kind, d.file(name, logSuffix), nil)
	if err != nil {
		return nil, owner, err
	}
	return mem, owner, nil
}

// readOwner returns what writeOwner has written, and the host.
func (d *dir) readOwner(name string) (owner Owner, host string, err error) {
	b, err := os.ReadFile(d.file(name, ownerSuffix))
	if err != nil {
		return owner, "", err
	}
	if len(b) < len(owner) || len(b) > len(owner)+maxHost {
		return owner, "", fmt.Errorf("push: %s is damaged: it should have 32 octets and then an address (restore it from a copy)",
			d.file(name, ownerSuffix))
	}
	copy(owner[:], b)
	return owner, string(b[len(owner):]), nil
}

// Host implements HostStore.
func (d *dir) Host(name string) string {
	_, host, _ := d.readOwner(name) // Open reports the error
	return host
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
