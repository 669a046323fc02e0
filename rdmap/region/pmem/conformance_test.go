package pmem_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
)

// newFile creates a file and returns its name.
func newFile(t testing.TB, size int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "memory")
	noErr(t, pmem.Create(path, size, nil))
	return path
}

func open(t testing.TB, kind pmem.Kind, path string, o *pmem.Options) *pmem.Memory {
	t.Helper()
	m := must(pmem.Open(kind, path, o))(t)
	return m
}

// fileTarget is a memory in a file. Its crash copies the file: it is what a new process finds there before the old one
// has ended.
func fileTarget(kind pmem.Kind) pmemtest.Target {
	return pmemtest.Target{
		Create: func(t testing.TB, size int, f *pmemtest.Faults) region.Memory {
			return open(t, kind, newFile(t, size), &pmem.Options{Hooks: f.Hooks()})
		},
		Crash: func(t testing.TB, m region.Memory) region.Memory {
			image := must(os.ReadFile(m.(*pmem.Memory).Path()))(t)
			path := filepath.Join(t.TempDir(), "after")
			noErr(t, os.WriteFile(path, image, 0o600))
			noErr(t, m.Close())
			return open(t, kind, path, nil)
		},
		Again: func(_ testing.TB, m region.Memory) error {
			_, err := pmem.Open(kind, m.(*pmem.Memory).Path(), nil)
			return err
		},
		Truncate: func(t testing.TB, m region.Memory, n int) {
			noErr(t, os.Truncate(m.(*pmem.Memory).Path(), int64(n)))
		},
	}
}

func TestFile(t *testing.T) {
	g := fileTarget(pmem.File)
	g.Sync, g.Write, g.Exact = pmem.OpDatasync, pmem.OpWrite, true
	pmemtest.Run(t, g)
}
