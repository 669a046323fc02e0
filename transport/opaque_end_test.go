package transport_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/internal/responder"
	"github.com/stag-rdma/stag/transport/rpc"
)

// lazySend makes a call of procTake whose data are said to be in seg.
func lazySend(p *rawPeer, xid uint32, seg chunks.Segment, how uint32) {
	h := rpcrdma.Header{XID: xid}
	h.Read = []chunks.ReadSegment{{Position: 44, Segment: seg}}
	p.send(header(h), rpcCall(xid, procTake, words(seg.Length, how)...))
}

// silentCall has a client make one call of procTake and answer no RDMA Read, and returns how
// the server's end of the connection ended.
func silentCall(t *testing.T, h *taker, cfg *transport.Config, how uint32) (s *transport.Server, served chan error) {
	t.Helper()
	a, b := rdmaptest.Pipe()
	t.Cleanup(func() { a.Close() })
	s = &transport.Server{Handler: h, Config: unwatched(cfg)}
	served = make(chan error, 1)
	go func() { served <- s.ServeConn(b) }()
	p, _, err := rdmaptest.Initiate(a, &mpa.Config{IRD: 4, ORD: 4})
	noErr(t, err)
	hd := rpcrdma.Header{XID: 7}
	hd.Read = []chunks.ReadSegment{{Position: 44, Segment: chunks.Segment{Handle: 1, Length: 100_000}}}
	noErr(t, p.Send(sendULPDU(header(hd), rpcCall(7, procTake, words(100_000, how)...))))
	return s, served
}

// TestLazyCancel ends a handler's context while its Reads are under way: the connection is
// given up, and the memory is the handler's again.
func TestLazyCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTaker()
		s, served := silentCall(t, h, testConfig(), takeCancel)
		defer s.Close()
		synctest.Wait()
		h.enter <- struct{}{}
		err := <-h.pulled
		if e, ok := errors.AsType[*rpc.OpError](err); !ok || e.Op != rpc.OpPull || !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled pull: %v", err)
		}
		if err := <-served; !errors.Is(err, responder.ErrPullGivenUp) {
			t.Errorf("the connection ended with %v", err)
		}
		if n := s.Stats().Held; n != 0 {
			t.Errorf("%d octets of the budget held", n)
		}
	})
}

// TestLazySilent: a peer that does not answer the Reads loses its connection after
// Timeouts.Pull, and the handler hears of it.
func TestLazySilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTaker()
		close(h.leave)
		cfg := testConfig()
		cfg.Timeouts.Pull = 3 * time.Second
		start := time.Now()
		s, served := silentCall(t, h, cfg, takeWait)
		defer s.Close()
		if err := <-h.pulled; !errors.Is(err, responder.ErrPullTimeout) {
			t.Errorf("pull from a silent peer: %v", err)
		}
		if d := time.Since(start); d < 3*time.Second || d > 3*time.Second+time.Second {
			t.Errorf("after %v", d)
		}
		<-served
	})
}

// TestLazyFails reads memory that is not there: the connection ends, the handler is told,
// and there is no reply (RFC 8166 Section 4.5.3).
func TestLazyFails(t *testing.T) {
	h := newTaker()
	close(h.leave)
	s, addr := startServer(t, h, nil)
	for name, seg := range map[string]func(p *rawPeer) chunks.Segment{
		"unknown handle": func(*rawPeer) chunks.Segment { return chunks.Segment{Handle: 0xdead00, Length: 9000} },
		"beyond its end": func(p *rawPeer) chunks.Segment {
			s := p.offer(make([]byte, 8000), region.RemoteRead)
			s.Length = 9000
			return s
		},
		"peer is gone": func(p *rawPeer) chunks.Segment {
			s := p.offer(make([]byte, 9000), region.RemoteRead)
			return s
		},
	} {
		p := rawClient(t, addr, rawConfig(plainPrivate(), 4096))
		before := s.Stats()
		seg := seg(p)
		if name == "peer is gone" {
			h.leave = make(chan struct{})
			lazySend(p, 7, seg, takeWait)
			<-h.enter
			p.conn.Abort(nil)
			waitFor(t, "the server knows", func() bool { return enginesOf(s)[0].Err() != nil })
			close(h.leave)
		} else {
			lazySend(p, 7, seg, takeWait)
			<-h.enter
		}
		if err := <-h.pulled; err == nil {
			t.Errorf("%s: pulled", name)
		} else if _, ok := errors.AsType[*rpc.OpError](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
		p.wantEnd()
		waitFor(t, "the connection has ended", func() bool { return s.Stats().Connections == 0 })
		if st := s.Stats(); st.Replies != before.Replies || st.InFlight != 0 {
			t.Errorf("%s: %+v", name, st)
		}
	}
}
