package transport_test

import (
	"context"
	"math"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

// overdraw takes n octets as slow calls of somebody else would, and returns a function that returns them.
func overdraw(t *testing.T, s *transport.Server, n int) func() {
	t.Helper()
	noErr(t, s.Init())
	p := must(s.Gate().Enter(tcpAddr("198.51.100.1"), nil))(t)
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
	noErr(t, p.conn.Handshake(testCtx(t)))
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
	waitFor(t, "no memory is held", func() bool { return s.Stats().Held == 0 }) // the reply may come first
}

// pulledCalls have their arguments pulled.
var pulledCalls = map[string]rpc.Call{
	"a read chunk": {Prog: testProg, Vers: testVers, Proc: procEcho, Args: words(70_000), Item: filled(70_000), ItemPos: 4},
	"a long call":  {Prog: testProg, Vers: testVers, Proc: procEcho, Args: filled(20_000)},
}

// TestPulledCallOverBudget: a call that was pulled does not wait for the budget, of which it
// holds a part.
func TestPulledCallOverBudget(t *testing.T) {
	const all = math.MaxInt / 2
	silent := rpc.HandlerFunc(func(context.Context, *rpc.Request, *rpc.Response) {})
	var at atomic.Pointer[transport.Server]
	cfg := testConfig()
	cfg.Reading.HandlerLimit = -1
	var back func()
	cfg.Trace = &rpc.Trace{Pulled: func(uint32, int) { back = overdraw(t, at.Load(), all) }}
	s, c := pair(t, silent, cfg, nil)
	at.Store(s)
	mustDo(t, c, &nullCall) // brings credits
	for _, call := range pulledCalls {
		mustDo(t, c, &call)
		back()
	}
}
