package capture_test

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

func TestMain(m *testing.M) { rdmaptest.Main(m) }

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
