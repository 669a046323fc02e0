//go:build !race

package commitlog_test

import (
	"context"
	"net"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// An append allocates nothing of its own. Both sides of the connection are counted: the
// engine's Atomic Write to guarded memory takes closures. What the consumer hands out is a
// copy, and is not counted.
func TestAppendAllocates(t *testing.T) {
	const engine = 2
	l := newTestLog(t, make(region.Bytes, 20480+1<<20), commitlog.WAL)
	p := newTestProducer(t, nil)
	ln := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer ln.Close()
	session(t, l, p, func() (a, b net.Conn) { return dialTCP(t, ln) })
	payload := make([]byte, 100)
	append1 := func() {
		must(p.Append(context.Background(), payload))(t)
	}
	for range 100 {
		append1()
	}
	if n := testing.AllocsPerRun(1000, append1); n > engine {
		t.Errorf("%v allocations", n)
	}
}
