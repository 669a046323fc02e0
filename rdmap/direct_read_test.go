package rdmap_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/internal/conntest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestDirectTCP makes Reads of many sizes at once over TCP, and compares the memory.
func TestDirectTCP(t *testing.T) {
	for _, crc := range []rdmap.CRCMode{rdmap.CRCOn, rdmap.CRCOff} {
		p, q := conntest.TcpPair(t)
		x, y := conntest.Connect(t, p, q, &rdmap.Config{Startup: rdmap.Startup{CRC: crc}}, &rdmap.Config{Startup: rdmap.Startup{CRC: crc}})
		go y.Serve()
		src := make([]byte, 3<<20)
		for i := range src {
			src[i] = byte(i * i >> 7)
		}
		from, _ := y.Register(src, region.RemoteRead)
		dst := make([]byte, len(src))
		to, _ := x.Register(dst, region.ReadSink)
		var ws [8]rdmap.Waiter
		off := 0
		for i, n := range []int{1 << 20, 100, 300 << 10, 1, 0, 700_001, 64 << 10, 500_000} {
			ws[i].Reset()
			wr := verbs.WR{
				Op: verbs.OpReadRequest, STag: from.STag(), TO: uint64(off), Sink: to.STag(), SinkTO: uint64(off),
				Len: uint32(n), Done: &ws[i],
			}
			if err := x.Post([]verbs.WR{wr}); err != nil {
				t.Fatal(err)
			}
			off += n
		}
		for i := range ws {
			if err := x.Wait(context.Background(), &ws[i]); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(dst[:off], src[:off]) || !bytes.Equal(dst[off:], make([]byte, len(dst)-off)) {
			t.Fatal("the sink differs from the source")
		}
		if err := to.Invalidate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
