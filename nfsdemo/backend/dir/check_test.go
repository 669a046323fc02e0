package dir

import (
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// The helpers of the tests that stay inside.

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
