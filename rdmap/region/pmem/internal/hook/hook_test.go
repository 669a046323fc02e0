package hook

import (
	"errors"
	"testing"
)

func TestCall(t *testing.T) {
	var none *Hooks
	if none.Call(Write, 0, 1) != nil || new(Hooks).Call(Write, 0, 1) != nil {
		t.Error("no hook, but an error")
	}
	want := errors.New("want")
	h := &Hooks{Before: func(op Op, off, n int) error {
		if op != Msync || off != 2 || n != 3 {
			t.Error(op, off, n)
		}
		return want
	}}
	if err := h.Call(Msync, 2, 3); !errors.Is(err, want) {
		t.Error(err)
	}
}
