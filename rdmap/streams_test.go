package rdmap_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestEndBehindMessages: a close arrives after everything that was sent before it. Afterwards everything fails and
// nothing hangs.
func TestEndBehindMessages(t *testing.T) {
	OnWires(t, func(t *testing.T, a, b net.Conn) {
		x, y := rdmaptest.Connect(t, a, b, nil, nil)
		for range 20 {
			noErr(t, x.Post([]verbs.WR{{Op: verbs.OpSend, Body: rdmaptest.Pattern(4000)}}))
		}
		closed := make(chan error, 1)
		go func() { closed <- x.Close() }()
		for i := range 20 {
			if _, err := y.Recv(t.Context()); err != nil {
				t.Fatalf("message %d: %v", i, err)
			}
		}
		if _, err := y.Recv(t.Context()); !errors.Is(err, io.EOF) {
			t.Fatalf("after the last message: %v", err)
		}
		noErr(t, <-closed)
		if err := y.Read(t.Context(), make([]byte, 1), 1, 0); !errors.Is(err, net.ErrClosed) {
			t.Fatal(err)
		}
	})
}

// TestAbortIsAtOnce: a TLS peer that does not read delays neither Abort nor Done, although the Close of
// crypto/tls waits five seconds to send its alert.
func TestAbortIsAtOnce(t *testing.T) {
	cfg := must(TlsConfig())(t)
	synctest.Test(t, func(t *testing.T) {
		a, b := rdmaptest.PipeSize(3000)
		x, y := rdmap.Client(tls.Client(a, &tls.Config{InsecureSkipVerify: true}), nil), rdmap.Server(tls.Server(b, cfg), nil)
		go y.Handshake(t.Context())
		noErr(t, x.Handshake(t.Context()))
		if _, err := a.Write(make([]byte, 2990)); err != nil { // leaves no room
			t.Fatal(err)
		}
		start := time.Now()
		x.Abort(rdmaptest.ErrTest)
		<-x.Done()
		if d := time.Since(start); d > 0 {
			t.Errorf("took %v", d)
		}
		b.Close()
		y.Abort(nil)
		<-y.Done()
	})
}

// deadlineConn remembers its write deadline and counts writes.
type deadlineConn struct {
	net.Conn
	mu       sync.Mutex
	deadline time.Time
	writes   int
}

func (c *deadlineConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return c.Conn.SetWriteDeadline(t)
}

func (c *deadlineConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.writes++
	c.mu.Unlock()
	return c.Conn.Write(p)
}

// TestWritesOfOtherConns: a link without gathered output makes few, long writes, and leaves no deadline
// set.
func TestWritesOfOtherConns(t *testing.T) {
	a, b := rdmaptest.Pipe()
	d := &deadlineConn{Conn: a}
	x, y := rdmaptest.Connect(t, d, b, nil, nil)
	const n = 4 << 20
	reg := must(y.Register(make([]byte, n), region.RemoteWrite|region.RemoteRead))(t)
	go y.Serve()
	noErr(t, x.Write(t.Context(), rdmaptest.Pattern(n), reg.STag(), 0))
	noErr(t, x.Read(t.Context(), make([]byte, 1), reg.STag(), n-1))
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.writes > n/buf.ChunkSize*5/4 {
		t.Errorf("%d writes for %d octets", d.writes, n)
	}
	if !d.deadline.IsZero() {
		t.Errorf("a write deadline is left at %v", d.deadline)
	}
}
