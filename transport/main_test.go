package transport_test

import (
	"cmp"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/transport/internal/memory"
)

// TestMain fails when a goroutine or a pooled buffer outlives the tests.
func TestMain(m *testing.M) {
	flag.Parse()
	patience = cmp.Or(flag.Lookup("test.timeout").Value.(flag.Getter).Get().(time.Duration), 10*time.Minute) / 3
	rdmaptest.Main(m, pooled)
}

func pooled() error {
	if n := memory.Shared.Live(); n != 0 {
		return fmt.Errorf("pooled buffers: %d", n)
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
