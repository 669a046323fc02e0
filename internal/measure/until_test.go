package measure_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stag-rdma/stag/internal/measure"
)

func TestUntil(t *testing.T) {
	mine := errors.New("mine")
	if v, err := measure.Until(t.Context(), func() (int, error) { return 7, mine }); v != 7 || err != mine {
		t.Error(v, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	hangs, waits := make(chan struct{}), make(chan struct{})
	defer close(hangs)
	go func() {
		<-waits
		cancel(mine)
	}()
	if v, err := measure.Until(ctx, func() (int, error) {
		close(waits)
		<-hangs
		return 7, nil
	}); v != 0 || err != mine {
		t.Error(v, err)
	}
}

// TestScratch: remove wins against a round that makes some files more.
func TestScratch(t *testing.T) {
	dir := t.TempDir()
	path, remove, err := measure.Scratch(dir, "x-")
	if err != nil {
		t.Fatal(err)
	}
	begun, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for n := range 130 {
			f, err := os.CreateTemp(path, "f")
			if err != nil {
				return // the directory is gone
			}
			f.Close()
			if n == 100 {
				close(begun)
			}
		}
	}()
	<-begun
	if err := remove(); err != nil {
		t.Error(err)
	}
	<-over
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
}
