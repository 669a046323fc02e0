package transport_test

import (
	"net"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
)

// overdraw takes n octets as slow calls of somebody else would, and returns a function that returns them.
func overdraw(t *testing.T, s *transport.Server, n int) func() {
	t.Helper()
	if err := s.Init(); err != nil {
		t.Fatal(err)
	}
	p, err := s.Gate().Enter(tcpAddr("198.51.100.1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	hold := p.Ticket()
	hold.Add(n)
	return func() { hold.Release(); p.Leave() }
}

// stallConn stops reading when told to.
type stallConn struct {
	*rdmaptest.Conn
	stall chan struct{} // closed: no more input
	gone  chan struct{}
}

func (c *stallConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	select {
	case <-c.stall:
		<-c.gone
		return 0, net.ErrClosed
	default:
	}
	return n, err
}

func (c *stallConn) Close() error {
	select {
	case <-c.gone:
	default:
		close(c.gone)
	}
	return c.Conn.Close()
}

// TestSegmentsCount: what a call takes for its segments comes out of Limits.Memory, though they are an octet long.
func TestSegmentsCount(t *testing.T) {
	const segments = 140
	s, addr := startServer(t, newEcho(), testConfig())
	good := dial(t, addr, nil)
	a, b := rdmaptest.Pipe()
	sc := &stallConn{Conn: a, stall: make(chan struct{}), gone: make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- s.ServeConn(b) }()
	p := &rawPeer{t, rdmap.Client(sc, rawConfig(usualPrivate(), 4096))}
	if err := p.conn.Handshake(testCtx(t)); err != nil {
		t.Fatal(err)
	}
	close(sc.stall) // the Reads get no answer
	h := rpcrdma.Header{XID: 1}
	seg := p.offer(make([]byte, segments), region.RemoteRead)
	seg.Length = 1
	for range segments {
		h.Read = append(h.Read, chunks.ReadSegment{Position: 44, Segment: seg})
		seg.Offset++
	}
	p.send(header(h), rpcCall(1, procSum, words(segments)...))
	waitFor(t, "the pull has begun", func() bool { return s.Stats().Held > 0 })
	if held := s.Stats().Held; held < segments*700 {
		t.Errorf("%d octets held for %d segments", held, segments)
	}
	mustDo(t, good, itemCall(procSum, filled(100_000)))
	sc.Close() // its Read knows no deadline
	p.conn.Abort(nil)
	<-served
	if held := s.Stats().Held; held != 0 {
		t.Errorf("%d octets of memory held", held)
	}
}
