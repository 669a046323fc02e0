//go:build !386

package rdmap_test

import (
	"flag"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

var long = flag.Bool("long", false, "move 4 GiB through sockets, which takes seconds")

// TestLongestOnWires is TestLongestMessages through everything, CRC included.
func TestLongestOnWires(t *testing.T) {
	if !*long {
		t.Skip("give -long, as make test-long does")
	}
	for _, cfg := range []*rdmap.Config{nil, {Startup: rdmap.Startup{CRC: rdmap.CRCOff}}} {
		a, b := Wires["tcp"](t)
		x, y := rdmaptest.Connect(t, a, b, cfg, cfg)
		sink, to := rdmaptest.VastMemory(t, x.Table(), region.ReadSink)
		src, from := rdmaptest.VastMemory(t, y.Table(), region.RemoteRead)
		go y.Serve()
		var w rdmap.Waiter
		w.Reset()
		err := x.Post([]verbs.WR{{Op: verbs.OpReadRequest, STag: from.STag(), Sink: to.STag(), Len: engine.MaxMessage, Done: &w}})
		if err == nil {
			err = x.Wait(t.Context(), &w)
		}
		if err != nil || src.Loaded != engine.MaxMessage || sink.Stored != engine.MaxMessage || src.Bad+sink.Bad != 0 {
			t.Errorf("%v, %d loaded, %d stored, %d out of order", err, src.Loaded, sink.Stored, src.Bad+sink.Bad)
		}
		if s := x.Stats(); s.ReadOctetsIn != engine.MaxMessage || s.OctetsIn < engine.MaxMessage {
			t.Errorf("%+v", s)
		}
	}
}
