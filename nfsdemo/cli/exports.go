package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/internal/exports"
	"github.com/stag-rdma/stag/nfsdemo/server"
)

// exportFlags are the flags that say what is exported.
type exportFlags struct {
	dirs     []string
	file     string
	squash   string
	readOnly bool
}

// read returns the exports, without their file systems.
func (f *exportFlags) read() ([]server.Export, error) {
	base := exports.Defaults()
	base.ReadOnly = f.readOnly
	switch f.squash {
	case "none":
		base.Squash = server.SquashNone
	case "root":
		base.Squash = server.SquashRoot
	case "all":
		base.Squash = server.SquashAll
	default:
		return nil, usagef("--squash %q: want none, root or all", f.squash)
	}
	var list []server.Export
	for _, d := range f.dirs {
		e, err := exports.Parse(d, base)
		if err != nil {
			return nil, usagef("--export %v", err)
		}
		list = append(list, e)
	}
	if f.file != "" {
		more, err := exports.Load(f.file, base)
		if err != nil {
			return nil, fmt.Errorf("--config %w", bareFile(f.file, err))
		}
		list = append(list, more...)
	}
	if len(list) == 0 {
		return nil, usagef("serve needs --export DIR, or --config FILE: see nfsdemo serve --help")
	}
	return list, nil
}

// bareFile is bare with the name of the file, which the errors of a file's content have already.
func bareFile(name string, err error) error {
	if _, ok := errors.AsType[*exports.Error](err); ok {
		return err
	}
	return fmt.Errorf("%s: %w", name, bare(err))
}

// exportSet are the file systems of a service, by path. One that is exported no longer stays open until the
// service ends: calls may be in progress, and it may come back.
type exportSet struct {
	make func(path string) (backend.FS, error) // opens one whose path is a name; nil: paths are those of directories
	key  []byte                                // of the handles of directories
	open map[string]backend.FS
}

// fill opens the file systems of list, and returns it with them and with absolute paths.
func (s *exportSet) fill(list []server.Export) ([]server.Export, error) {
	out := make([]server.Export, len(list))
	for i, e := range list {
		given := e.Path
		if s.make != nil {
			e.Path = filepath.Clean("/" + given)
		} else {
			p, err := filepath.Abs(given)
			if err != nil {
				return nil, err
			}
			e.Path = p
		}
		e.Path = filepath.ToSlash(e.Path)
		if s.open[e.Path] == nil {
			fsys, err := s.openOne(e.Path)
			if err != nil {
				return nil, fmt.Errorf("export %s: %w", given, err)
			}
			if s.open == nil {
				s.open = make(map[string]backend.FS)
			}
			s.open[e.Path] = fsys
		}
		e.FS = s.open[e.Path]
		out[i] = e
	}
	return out, nil
}

// openOne opens one file system.
func (s *exportSet) openOne(path string) (backend.FS, error) {
	if s.make != nil {
		return s.make(path)
	}
	path = filepath.FromSlash(path)
	switch st, err := os.Stat(path); {
	case errors.Is(err, os.ErrNotExist):
		return nil, errors.New("no such directory: make it first")
	case err != nil:
		return nil, bare(err)
	case !st.IsDir():
		return nil, errors.New("not a directory: name the directory to serve")
	}
	fsys, err := dir.New(path, &dir.Config{Key: s.key})
	if err != nil {
		return nil, bare(err)
	}
	return fsys, nil
}

// close closes all of them.
func (s *exportSet) close() error {
	var errs []error
	for _, fsys := range s.open {
		errs = append(errs, fsys.Close())
	}
	s.open = nil
	return errors.Join(errs...)
}

// modeOf describes the options of an export in words of exports(5).
func modeOf(e *server.Export) string {
	mode := "read-write"
	if e.ReadOnly {
		mode = "read-only"
	}
	if !e.FS.Info().Owners {
		return mode
	}
	words := []string{mode, e.Squash.String()}
	if !e.Secure {
		words = append(words, "insecure")
	}
	if n := len(e.Clients); n > 0 {
		words = append(words, plural(n, "client")+" with options of their own")
	}
	return strings.Join(words, ", ")
}
