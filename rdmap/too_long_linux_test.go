//go:build !386

package rdmap_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestTooLong: a message that is one octet longer is refused before anything is sent.
func TestTooLong(t *testing.T) {
	p := rdmaptest.Vast(t, engine.MaxMessage+1)
	for _, wr := range []verbs.WR{
		{Op: verbs.OpSend, Body: p}, {Op: verbs.OpWrite, Body: p}, {Op: verbs.OpSendSE, Head: p}, {Op: verbs.OpWrite, Head: p[:1], Body: p[1:]},
	} {
		if err := engine.Misuse(&wr); !errors.Is(err, verbs.ErrTooLong) {
			t.Errorf("%v: %v", wr.Op, err)
		}
	}
	if err := engine.Misuse(&verbs.WR{Op: verbs.OpWrite, Head: p[:1], Body: p[2:]}); err != nil {
		t.Error(err)
	}
	a, b := Wires["pipe"](t)
	x, _ := rdmaptest.Connect(t, a, b, nil, nil)
	if err := x.Read(context.Background(), p, 1, 0); !errors.Is(err, verbs.ErrTooLong) {
		t.Error(err)
	}
}
