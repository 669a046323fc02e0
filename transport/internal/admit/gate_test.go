package admit

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/rpc"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// TestInlinePromises: all connections together may send no more inline than Limits.Memory, beyond a page for
// each call, the first ones as much as they like, and a connection that ends makes room.
func TestInlinePromises(t *testing.T) {
	cfg := Config{Memory: 256 << 20, Credits: 64, InlineRecv: 256 << 10, MaxPayload: 1 << 20, Pull: 30 * time.Second, Startup: 10 * time.Second, Logger: zap.NewNop()}
	d := New(cfg, new(memory.Counters))
	var sizes []int
	for range 2000 {
		n := d.Inline()
		if k := len(sizes); k > 0 && n > sizes[k-1] {
			t.Fatalf("connection %d may send %d octets, the one before %d", k, n, sizes[k-1])
		}
		sizes = append(sizes, n)
	}
	if sizes[0] != 256<<10 || sizes[7] != 256<<10 || sizes[1999] != 4096 {
		t.Errorf("%d, %d, %d octets", sizes[0], sizes[7], sizes[1999])
	}
	if d.promised > cfg.Memory || d.promised < cfg.Memory/2 {
		t.Errorf("%d octets promised of %d", d.promised, cfg.Memory)
	}
	for _, n := range sizes {
		d.InlineIs(n, 0)
	}
	if d.promised != 0 || d.Inline() != 256<<10 {
		t.Errorf("%d octets promised to nobody", d.promised)
	}
}

// TestRefusalsSampled: a client that is refused again and again does not fill the log.
func TestRefusalsSampled(t *testing.T) {
	core, log := observer.New(zapcore.InfoLevel)
	ctr := new(memory.Counters)
	g := New(Config{
		Memory: 256 << 20, MaxPayload: 1 << 20, Pull: time.Second, Logger: zap.New(core), Allow: func(net.Addr) bool { return false },
	}, ctr)
	for range 5000 {
		_, err := g.Enter(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 700}, nil)
		g.Stranger("x", err)
		g.Stranger("x", &rpc.OpError{Op: rpc.OpAccept, Err: os.ErrDeadlineExceeded})
	}
	if n := log.Len(); n < 20 || n > 600 { // a second may end meanwhile
		t.Errorf("%d lines for 10000 events", n)
	}
	if n := ctr.NotAllowed.Load(); n != 5000 {
		t.Errorf("%d counted", n)
	}
}
