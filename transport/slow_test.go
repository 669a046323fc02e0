package transport_test

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/internal/stream"
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
		if d := time.Since(start); d != stream.Patience {
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
