package dir_test

import (
	"runtime"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/backendtest"
	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// linux says that files have identities of their own here.
const linux = runtime.GOOS == "linux"

// secret is a key that is kept.
var secret = []byte("0123456789abcdef0123456789abcdef")

func TestSuite(t *testing.T) { suite(t, &dir.Config{Async: true, Key: secret}) }

// TestSuitePlaces runs the suite without handles of the file system.
func TestSuitePlaces(t *testing.T) { suite(t, dir.Config{Async: true, Key: secret}.Searching()) }

func suite(t *testing.T, cfg *dir.Config) {
	paths := make(map[backend.FS]string)
	open := func(t *testing.T, path string) backend.FS {
		f, err := dir.New(path, cfg)
		if err != nil {
			t.Fatal(err)
		}
		paths[f] = path
		return f
	}
	o := backendtest.Options{
		New:       func(t *testing.T) backend.FS { return open(t, t.TempDir()) },
		NoSpecial: !linux,
		NoLinks:   !linux,
	}
	if linux {
		o.Reopen = func(t *testing.T, f backend.FS) backend.FS {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			return open(t, paths[f])
		}
	}
	backendtest.Run(t, o)
}

// TestSuiteSmall runs the suite with hardly any room: everything is evicted all the time.
func TestSuiteSmall(t *testing.T) {
	if !linux {
		t.Skip("a file that is not remembered is found again by its inode number")
	}
	for name, places := range map[string]bool{"handles": false, "places": true} {
		t.Run(name, func(t *testing.T) {
			backendtest.Run(t, backendtest.Options{Big: 300, New: func(t *testing.T) backend.FS {
				cfg := &dir.Config{Async: true, MaxNodes: 600, MaxFiles: 1, MaxHeld: 2}
				if places {
					cfg = cfg.Searching()
				}
				f, err := dir.New(t.TempDir(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				return f
			}})
		})
	}
}

// open serves a new directory and returns its path too.
func open(t testing.TB, cfg *dir.Config) (*dir.FS, string) {
	t.Helper()
	path := t.TempDir()
	f, err := dir.New(path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f, path
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want(t testing.TB, err error, s nfs3.Status) {
	t.Helper()
	if err != error(s) {
		t.Fatalf("got %v, want %v", err, s)
	}
}

var in644 = &backend.Init{Attr: nfs3.SetAttr{SetMode: true, Mode: 0o644}}

func create(t testing.TB, d backend.Node, name string) backend.Node {
	t.Helper()
	n, _, err := d.Create(name, in644)
	ok(t, err)
	return n
}

func mkdir(t testing.TB, d backend.Node, name string) backend.Node {
	t.Helper()
	n, _, err := d.Create(name, &backend.Init{Type: nfs3.TypeDir, Attr: nfs3.SetAttr{SetMode: true, Mode: 0o755}})
	ok(t, err)
	return n
}

func resolve(t testing.TB, f *dir.FS, n backend.Node) backend.Node {
	t.Helper()
	r, err := f.Resolve(nil, n.AppendHandle(nil))
	ok(t, err)
	return r
}
