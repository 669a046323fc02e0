package rdmap

import (
	"context"
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
)

// poisoning is true in builds that overwrite memory when it is no longer lent, which are usually those with
// the race detector.
var poisoning = func() bool {
	b := []byte{0}
	buf.Poison(b)
	return b[0] != 0
}()

var background = context.Background()

// TestPoison: instrumented builds overwrite memory that is given back, so that a later use of it is noticed.
func TestPoison(t *testing.T) {
	b := make(buf.Mem, 8)
	p := buf.NewPool(100)
	p.Put(b)
	if poisoning && b[3] != 0xcc {
		t.Fatal("not poisoned")
	}
}
