package rdmap_test

import (
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
)

// wireRate is the rate of a slowWire in octets per second.
const wireRate = 100 << 20

// slowWire writes at wireRate.
type slowWire struct{ net.Conn }

func (c slowWire) Write(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		var k int
		piece := p[:min(len(p), 16<<10)]
		time.Sleep(time.Duration(len(piece)) * time.Second / wireRate)
		k, err = c.Conn.Write(piece)
		n, p = n+k, p[k:]
	}
	return n, err
}

// TestPingBesideBulk: on a connection that bulk data fills, in either direction, a message of 64 octets
// and its answer take no longer than three batches of the bulk data.
func TestPingBesideBulk(t *testing.T) {
	const size = 4 << 20
	read := func(x *rdmap.Conn, p []byte, stag region.STag) error { return x.Read(Background, p, stag, 0) }
	write := func(x *rdmap.Conn, p []byte, stag region.STag) error {
		return x.Write(Background, p[:buf.BatchOctets/8], stag, 0)
	}
	for name, bulk := range map[string]func(x *rdmap.Conn, p []byte, stag region.STag) error{"read": read, "write": write} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const batch = buf.BatchOctets * time.Second / wireRate
				a, b := rdmaptest.PipeSize(64 << 10)
				h := &Calls{Pending: make(map[uint64]*rdmap.Waiter)}
				x, y := rdmaptest.Connect(t, slowWire{a}, slowWire{b}, &rdmap.Config{Handler: h}, &rdmap.Config{Handler: Echoer{}})
				go y.Serve()
				reg := MustRegister(t, y, size, region.RemoteRead|region.RemoteWrite)
				for range 8 {
					go func() {
						p := make([]byte, size)
						for bulk(x, p, reg.STag()) == nil {
						}
					}()
				}
				time.Sleep(100 * time.Millisecond)
				var took []time.Duration
				for i := range uint64(30) {
					start := time.Now()
					noErr(t, h.Call(Background, x, i, 64))
					took = append(took, time.Since(start))
					time.Sleep(time.Duration(i%13) * batch / 13)
				}
				x.Abort(nil)
				slices.Sort(took)
				t.Logf("median %v, most %v, a batch %v", took[15], took[29], batch)
				if took[29] > 3*batch {
					t.Errorf("a message and its answer took %v, a batch takes %v", took[29], batch)
				}
			})
		})
	}
}
