package pmemtest_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
)

// sickFile is a mapping, or a file, with one illness.
type sickFile struct {
	*pmem.Memory
	ill string
}

func (s *sickFile) Persist(off, n int) error {
	err := s.Memory.Persist(off, n)
	if s.ill == "no size check" && errors.Is(err, region.ErrRegionLost) || s.ill == "no space check" && errors.Is(err, pmem.ErrFailed) {
		return nil
	}
	return err
}

func (s *sickFile) Store(off int, p []byte) error {
	err := s.Memory.Store(off, p)
	if s.ill == "no fault" {
		return nil
	}
	return err
}

func init() {
	fileIllnesses := map[string]string{"no size check": "truncated", "no fault": "faults/store", "no space check": "full"}
	maps.Copy(illnesses, fileIllnesses)
	makers = append(makers, func(ill string) (g pmemtest.Target, ok bool) {
		if fileIllnesses[ill] == "" && ill != "" {
			return g, false
		}
		kind := pmem.Mmap
		if ill == "no space check" {
			kind = pmem.File
		}
		return fileTarget(kind, ill), true
	})
}

func fileTarget(kind pmem.Kind, ill string) pmemtest.Target {
	g := pmemtest.Target{
		Create: func(t testing.TB, size int, f *pmemtest.Faults) region.Memory {
			path := filepath.Join(t.TempDir(), "memory")
			if err := pmem.Create(path, size, nil); err != nil {
				t.Fatal(err)
			}
			m, err := pmem.Open(kind, path, &pmem.Options{Hooks: f.Hooks()})
			if err != nil {
				t.Fatal(err)
			}
			return &sickFile{m, ill}
		},
		Truncate: func(t testing.TB, m region.Memory, n int) {
			if err := os.Truncate(m.(*sickFile).Path(), int64(n)); err != nil {
				t.Fatal(err)
			}
		},
		Sync: pmem.OpMsync, Mapped: true,
	}
	if kind == pmem.File {
		g.Sync, g.Write, g.Mapped = pmem.OpDatasync, pmem.OpWrite, false
	}
	return g
}

func TestRunFile(t *testing.T) { pmemtest.Run(t, fileTarget(pmem.File, "")) }
