package hook_test

import (
	"errors"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region/pmem/internal/hook"
)

func TestCall(t *testing.T) {
	var none *hook.Hooks
	if none.Call(hook.Write, 0, 1) != nil || new(hook.Hooks).Call(hook.Write, 0, 1) != nil {
		t.Error("no hook, but an error")
	}
	want := errors.New("want")
	h := &hook.Hooks{Before: func(op hook.Op, off, n int) error {
		if op != hook.Msync || off != 2 || n != 3 {
			t.Error(op, off, n)
		}
		return want
	}}
	if err := h.Call(hook.Msync, 2, 3); !errors.Is(err, want) {
		t.Error(err)
	}
}
