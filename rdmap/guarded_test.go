package rdmap_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestSim: the crash model knows what peers place, by whatever operation, and what they flush survives
// every crash.
func TestSim(t *testing.T) {
	OnWires(t, func(t *testing.T, a, b net.Conn) {
		cfg := &rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.Ext7306 | verbs.ExtCommit}}
		x, y := rdmaptest.Connect(t, a, b, cfg, cfg)
		sim := pmemtest.NewSim(1024, nil)
		reg, err := y.Table().RegisterMemory(sim, region.Options{Access: rdmaptest.CommitRights | region.Atomic})
		if err != nil {
			t.Fatal(err)
		}
		go y.Serve()
		ctx, s, data := t.Context(), reg.STag(), rdmaptest.Pattern(200)
		_, e1 := x.FetchAdd(ctx, s, 512, 7, 0)
		e2 := x.AtomicWrite(ctx, s, 640, [8]byte{1, 2, 3, 4, 5, 6, 7, 8})
		if err := errors.Join(e1, e2, x.Write(ctx, data, s, 10), x.Flush(ctx, s, 10, 60, verbs.FlushPersistent)); err != nil {
			t.Fatal(err)
		}
		shot := sim.Told()
		if got := shot.Dirty(); len(got) != 5 { // lines 1 to 3 of the data, and two words
			t.Errorf("dirty lines %v", got)
		}
		if got := shot.Durable(); !bytes.Equal(got[10:70], data[:60]) || !bytes.Equal(got[70:], make([]byte, 954)) {
			t.Errorf("durable: %x", got)
		}
		torn, whole := 0, 0
		for im := range shot.All(pmemtest.Line) {
			if !bytes.Equal(im.Octets()[10:70], data[:60]) {
				t.Fatal("flushed octets lost by a crash")
			}
			if bytes.Equal(im.Octets()[10:210], data) && im.Octets()[640] == 1 && binary.NativeEndian.Uint64(im.Octets()[512:]) == 7 {
				whole++
			} else {
				torn++
			}
		}
		if whole != 1 || torn != 31 {
			t.Errorf("%d images have all octets, %d do not", whole, torn)
		}
		sink := make([]byte, 200)
		if err := x.Read(ctx, sink, s, 10); err != nil || !bytes.Equal(sink, data) {
			t.Error("read", err)
		}
	})
}
