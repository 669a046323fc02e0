package cli

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/internal/exports"
)

// keySize is the length in octets of the key that seals handles.
const keySize = 32

// stateDir returns where a server keeps what must outlive it: where systemd says (StateDirectory=), or the
// place that is usual for the user. "" if there is none.
func stateDir() string {
	if d := os.Getenv("STATE_DIRECTORY"); d != "" {
		return filepath.SplitList(d)[0]
	}
	if d := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "nfsdemo")
	}
	if os.Geteuid() == 0 {
		return "/var/lib/nfsdemo"
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local", "state", "nfsdemo")
}

// handleKey returns the key in the directory dir, which it makes if there is none. Two servers that start at
// the same time get the same key.
func handleKey(dir string) ([]byte, error) {
	name := filepath.Join(dir, "handles.key")
	key, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		key, err = newKey(dir, name)
	}
	if err != nil {
		return nil, err
	}
	if len(key) != keySize {
		return nil, fmt.Errorf("%s: want %d octets, not %d: restore it, or remove it, and clients have to mount again", name, keySize, len(key))
	}
	return key, nil
}

// newKey makes the file name in dir.
func newKey(dir, name string) ([]byte, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	tmp, err := os.CreateTemp(dir, ".handles.key") // mode 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(tmp.Name())
	key := make([]byte, keySize)
	rand.Read(key) // never fails (crypto/rand)
	_, err = tmp.Write(key)
	if err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	if err := os.Link(tmp.Name(), name); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.ReadFile(name) // perhaps somebody else's
}

// openKey reads the key of the configuration. A directory that nobody has asked for may fail: then handles end
// with this process.
func (cfg *serviceConfig) openKey() ([]byte, error) {
	dir, asked := cfg.state, cfg.state != ""
	if !asked {
		dir = stateDir()
	}
	if !asked && holder(dir, cfg.exports, soon) != "" {
		dir = "" // who reads the key can make handles
	}
	if dir == "" {
		return nil, nil //nolint:nilnil // no key is a valid key
	}
	key, err := handleKey(dir)
	switch {
	case err == nil:
		cfg.state = dir // no export may hold it later, either
		return key, nil
	case asked:
		return nil, fmt.Errorf("--state %s: %w", dir, bare(err))
	}
	return nil, nil //nolint:nilnil // announce says so
}

// checkPlaces refuses exports that hold what the server keeps from clients. in says whether a directory holds a place.
func (cfg *serviceConfig) checkPlaces(list []exports.Export, in func(dir, place string) bool) error {
	for _, p := range [...][2]string{{"--state", cfg.state}, {"--pcap", cfg.pcap}, {"--push-log", cfg.push.dir}, {"--control", cfg.control}} {
		if e := holder(p[1], list, in); e != "" {
			return usagef("%s %s is inside the export %s: clients could read or change it; name a place elsewhere", p[0], p[1], e)
		}
	}
	return nil
}

// holder returns the path of an export that a file or directory is in, though neither may exist yet; "": of none.
func holder(path string, list []exports.Export, in func(dir, place string) bool) string {
	abs, err := filepath.Abs(path)
	if path == "" || err != nil {
		return ""
	}
	for up, rest := abs, "."; ; up, rest = filepath.Dir(up), filepath.Join(filepath.Base(up), rest) {
		if real, err := filepath.EvalSymlinks(up); err == nil { // what does not exist yet will be made there
			abs = filepath.Join(real, rest)
			break
		} else if up == filepath.Dir(up) {
			break
		}
	}
	for i := range list {
		if dir, err := filepath.Abs(list[i].Path); err == nil && in(dir, abs) {
			return list[i].Path
		}
	}
	return ""
}

// inside reports whether place, without links, is in a directory, by whatever name: the directory may be a link, or mounted
// there too (mount --bind). It may hang as long as a file system does.
func inside(dir, place string) bool {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	if rel, err := filepath.Rel(dir, place); err == nil && filepath.IsLocal(rel) {
		return true
	}
	is, err := os.Stat(dir)
	for up := place; err == nil; up = filepath.Dir(up) {
		if st, serr := os.Stat(up); serr == nil && os.SameFile(st, is) {
			return true
		}
		if up == filepath.Dir(up) {
			break
		}
	}
	return false
}

// soon is inside for those who cannot wait.
func soon(dir, place string) bool { return inTime(dir, place, inside) }

// inTime returns in(dir, place), or false if that takes long: one file system must not keep the others from being served.
// What it has not found out in time is seen before that one is served.
func inTime(dir, place string, in func(dir, place string) bool) bool {
	found := make(chan bool, 1)
	go func() { found <- in(dir, place) }()
	select {
	case yes := <-found:
		return yes
	case <-time.After(checkTime):
		return false
	}
}
