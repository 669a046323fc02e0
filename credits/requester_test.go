package credits_test

import (
	"testing"

	"github.com/stag-rdma/stag/credits"
)

func want(t *testing.T, what string, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %d, want %d", what, got, want)
	}
}

func TestRequesterZeroValue(t *testing.T) {
	var r credits.Requester
	if r.Request() != 1 || r.Window() != 1 || !r.Take() || r.Take() || !r.Release() || r.Release() {
		t.Errorf("the zero value is not a window of one: %+v", r)
	}
}
