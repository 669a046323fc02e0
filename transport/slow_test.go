package transport_test

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/internal/record"
	"github.com/stag-rdma/stag/transport/rpc"
)

// TestRelayPeerDoesNotRead: a TCP peer of a Relay that stops reading loses its connection,
// and so does the other one (ADVERSARY row 20).
func TestRelayPeerDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, client := rdmaptest.PipeSize(1000)
		b, server := rdmaptest.PipeSize(1000)
		over := make(chan error, 1)
		start := time.Now()
		go func() { over <- transport.Relay(a, b) }()
		go func() { _, _ = server.Write(make([]byte, 10_000)) }() // nobody reads it
		if err := <-over; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Relay: %v", err)
		}
		if d := time.Since(start); d != record.Patience {
			t.Errorf("given up after %v", d)
		}
		for _, c := range []net.Conn{client, server} {
			if _, err := c.Write([]byte{1}); err == nil {
				t.Error("the connection lives on")
			}
			c.Close()
		}
	})
}

// TestSlowPeersCounted: each connection that a peer loses by being slow is counted once,
// and one that ends in order is not.
func TestSlowPeersCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.Reading.HandlerLimit = -1
		s, c, end := pipePair(t, newEcho(), cfg, testConfig())
		defer end()
		for i, kind := range silentPeers {
			a, b := rdmaptest.PipeSize(2000)
			served := make(chan error, 1)
			go func() { served <- s.ServeConn(b) }()
			go func() {
				if err := kind.start(a); err != nil {
					t.Errorf("%s: %v", kind.name, err)
				}
			}()
			err := <-served
			e, ok := errors.AsType[*rpc.OpError](err)
			if !ok || !e.Timeout() {
				t.Errorf("%s: %v", kind.name, err)
			}
			if n := s.Stats().SlowPeers; n != uint64(i+1) {
				t.Errorf("%s: %d counted", kind.name, n)
			}
			a.Close()
		}
		if err := tryCtx(context.Background(), c, &nullCall); err != nil {
			t.Error(err)
		}
		a, b := rdmaptest.Pipe()
		go func() {
			good, err := transport.NewClient(t.Context(), a, testConfig())
			if err == nil {
				good.Close()
			}
		}()
		if err := s.ServeConn(b); err != nil {
			t.Error(err)
		}
		if n := s.Stats().SlowPeers; n != uint64(len(silentPeers)) {
			t.Errorf("%d counted", n)
		}
	})
}
