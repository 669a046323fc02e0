package pmemhook_test

import (
	"errors"
	"testing"

	"github.com/stag-rdma/stag/internal/pmemhook"
)

func TestCall(t *testing.T) {
	var none *pmemhook.Hooks
	if none.Call(pmemhook.Write, 0, 1) != nil || new(pmemhook.Hooks).Call(pmemhook.Write, 0, 1) != nil {
		t.Error("no hook, but an error")
	}
	want := errors.New("want")
	h := &pmemhook.Hooks{Before: func(op pmemhook.Op, off, n int) error {
		if op != pmemhook.Msync || off != 2 || n != 3 {
			t.Error(op, off, n)
		}
		return want
	}}
	if err := h.Call(pmemhook.Msync, 2, 3); !errors.Is(err, want) {
		t.Error(err)
	}
}
