package pmem_test

import (
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
)

// TestMain fails the package if a test leaves a goroutine or a pinned memory behind.
func TestMain(m *testing.M) { rdmaptest.Main(m, pinned) }

func pinned() error {
	if n := pmem.Pinned(); n != 0 {
		return fmt.Errorf("pinned memories: %d", n)
	}
	return nil
}

// must returns v, unless err ends the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		noErr(t, err)
		return v
	}
}

// noErr ends the test if err is an error.
func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
