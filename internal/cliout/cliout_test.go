package cliout_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/internal/cliout"
)

// full takes n octets and then fails.
type full struct {
	bytes.Buffer
	n int
}

var errFull = errors.New("full")

func (f *full) Write(b []byte) (int, error) {
	if f.Len()+len(b) > f.n {
		return 0, errFull
	}
	return f.Buffer.Write(b)
}

// TestFirstError: the first error stays, and nothing is written behind the gap.
func TestFirstError(t *testing.T) {
	f := &full{n: 5}
	w := cliout.New(f)
	for _, s := range []string{"abc", "defg", "h"} { // the last one would fit again
		fmt.Fprint(w, s)
	}
	if got := f.String(); got != "abc" || !errors.Is(w.Err(), errFull) {
		t.Errorf("wrote %q, error %v; want abc and %v", got, w.Err(), errFull)
	}
	if w := cliout.New(&full{n: 1}); w.Err() != nil {
		t.Errorf("error %v before anything was written", w.Err())
	}
}
