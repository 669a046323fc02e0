//go:build !386

package rdmap

import (
	"context"
	"errors"
	"flag"
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/internal/enginetest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestTooLong: a message that is one octet longer is refused before anything is sent.
func TestTooLong(t *testing.T) {
	p := enginetest.Vast(t, engine.MaxMessage+1)
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
	a, b := wires["pipe"](t)
	x, _ := connect(t, a, b, nil, nil)
	if err := x.Read(context.Background(), p, 1, 0); !errors.Is(err, verbs.ErrTooLong) {
		t.Error(err)
	}
}

var long = flag.Bool("long", false, "move 4 GiB through sockets, which takes seconds")

// TestLongestOnWires is TestLongestMessages through everything, CRC included.
func TestLongestOnWires(t *testing.T) {
	if !*long {
		t.Skip("give -long, as make test-long does")
	}
	for _, cfg := range []*Config{nil, {CRC: CRCOff}} {
		a, b := wires["tcp"](t)
		x, y := connect(t, a, b, cfg, cfg)
		sink, to := enginetest.VastMemory(t, x.Table(), region.ReadSink)
		src, from := enginetest.VastMemory(t, y.Table(), region.RemoteRead)
		go y.Serve()
		err := x.do(t.Context(), &verbs.WR{Op: verbs.OpReadRequest, STag: from.STag(), Sink: to.STag(), Len: engine.MaxMessage})
		if err != nil || src.Loaded != engine.MaxMessage || sink.Stored != engine.MaxMessage || src.Bad+sink.Bad != 0 {
			t.Errorf("%v, %d loaded, %d stored, %d out of order", err, src.Loaded, sink.Stored, src.Bad+sink.Bad)
		}
		if s := x.Stats(); s.ReadOctetsIn != engine.MaxMessage || s.OctetsIn < engine.MaxMessage {
			t.Errorf("%+v", s)
		}
	}
}
