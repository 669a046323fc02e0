package dir

import (
	"runtime"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/backendtest"
)

// linux says that files have identities of their own here.
const linux = runtime.GOOS == "linux"

func TestSuite(t *testing.T) {
	paths := make(map[backend.FS]string)
	cfg := &Config{Async: true}
	open := func(t *testing.T, path string) backend.FS {
		f, err := New(path, cfg)
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
	backendtest.Run(t, backendtest.Options{Big: 300, New: func(t *testing.T) backend.FS {
		f, err := New(t.TempDir(), &Config{Async: true, MaxNodes: 600, MaxFiles: 1, MaxDirs: 2})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}})
}
