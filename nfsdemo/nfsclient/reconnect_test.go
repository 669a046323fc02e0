package nfsclient_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
)

// weakConn is a connection that ends after so many octets have come.
type weakConn struct {
	net.Conn
	left atomic.Int64
}

func (c *weakConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.left.Add(-int64(n)) < 0 {
		c.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// TestReconnect moves files and names over connections that end after some octets, until
// twenty have: all of it works as if nothing had happened, and without Reconnect fails.
func TestReconnect(t *testing.T) {
	t.Parallel()
	rdma, tcp, _ := serve(t, false)
	for _, u := range []string{rdma, tcp} {
		rnd := rand.New(rand.NewPCG(1, 2))
		conns := 0
		cfg := &nfsclient.Config{Reconnect: time.Minute, MaxBlock: 16 << 10, Tap: func(c net.Conn) net.Conn {
			w := &weakConn{Conn: c}
			w.left.Store(1 << 40)
			if conns++; conns <= 20 {
				w.left.Store(4000 + rnd.Int64N(300_000))
			}
			return w
		}}
		c, err := dial(t, u, cfg)
		if err != nil {
			t.Fatal(err)
		}
		data := make([]byte, 300_000)
		for i := range data {
			data[i] = byte(rnd.Uint32())
		}
		for i := 0; conns <= 20 || i < 3; i++ {
			if i == 200 {
				t.Fatalf("%d connections", conns)
			}
			d, err := c.MkdirAll(t.Context(), fmt.Sprintf("/export/d%d", i), 0o755)
			if err != nil {
				t.Fatal(err)
			}
			noErr(t, roundTrip(t, c, d, data))
			must(c.RemoveAll(t.Context(), c.Root(), d))(t)
		}
		if st := c.Stats(); st.Retransmits == 0 || st.Accepted <= 20 {
			t.Errorf("%+v", st)
		}
		conns, cfg.Reconnect = 0, 0
		if c, err = dial(t, u, cfg); err == nil {
			d := c.Root()
			for err == nil {
				err = roundTrip(t, c, d, data)
			}
		}
		if !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("without Reconnect: %v", err)
		}
	}
}

// sinkAt is memory that a download fills.
type sinkAt []byte

func (s sinkAt) WriteAt(p []byte, off int64) (int, error) { return copy(s[off:], p), nil }

// roundTrip writes a new file and reads it back.
func roundTrip(t *testing.T, c *nfsclient.Client, dir *nfsclient.Node, data []byte) error {
	t.Helper()
	n, err := c.Create(t.Context(), dir, "f", 0o644, false)
	if err != nil {
		return err
	}
	if _, err := c.WriteFrom(t.Context(), n, bytes.NewReader(data), int64(len(data)), nil); err != nil {
		return err
	}
	if n, err = c.Lookup(t.Context(), n.Path); err != nil {
		return err
	}
	got := make(sinkAt, len(data))
	if _, err := c.ReadTo(t.Context(), n, got, nil); err != nil {
		return err
	}
	if !bytes.Equal(got, data) {
		t.Error("read back other data than were written")
	}
	return nil
}
