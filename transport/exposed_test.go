package transport_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/internal/responder"
	"github.com/stag-rdma/stag/transport/rpc"
)

// exposedReader is a client of profile rfc5666 made by hand: without RFC 8797, so that it need
// not call the Connection Configuration Protocol to be trusted with read lists.
func exposedReader(t testing.TB, addr string) *rawPeer {
	return rawClient(t, addr, rawConfig(nil, 1024))
}

// ask makes a call of procFill, of which no one knows how large the result is.
func (p *rawPeer) ask(xid, n uint32) {
	p.t.Helper()
	p.send(header(rpcrdma.Header{XID: xid}), rpcCall(xid, procFill, words(n)...))
}

// exposed returns the next reply, which has a read list of one segment.
func (p *rawPeer) exposed() rpcrdma.Header {
	p.t.Helper()
	h, _ := p.recv()
	if len(h.Read) != 1 {
		p.t.Fatalf("not exposed: %+v", h)
	}
	return h
}

// fetch reads what a reply exposes.
func (p *rawPeer) fetch(h *rpcrdma.Header) ([]byte, error) {
	b := make([]byte, h.Read[0].Length)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return b, p.conn.Read(ctx, b, memory.STag(h.Read[0].Handle), h.Read[0].Offset)
}

func (p *rawPeer) done(xid uint32) {
	p.t.Helper()
	p.send(header(rpcrdma.Header{XID: xid, Type: rpcrdma.MsgTypeDone}))
}

// TestDoneRevokes: until the RDMA_DONE the reply can be read, as often as one likes;
// behind it a Read ends the connection and sees nothing.
func TestDoneRevokes(t *testing.T) {
	s, addr := startServer(t, newEcho(), config5666())
	p := exposedReader(t, addr)
	p.ask(1, 5001)
	h := p.exposed()
	if pos := h.Read[0].Position; pos != 28 || h.Read[0].Length != 5001 {
		t.Errorf("read chunk %+v", h.Read[0])
	}
	for range 2 {
		if b, err := p.fetch(&h); err != nil || !bytes.Equal(b, filled(5001)) {
			t.Fatalf("read: %v", err)
		}
	}
	p.done(77) // no such reply
	p.done(1)
	p.done(1) // no more
	p.ask(2, 8)
	if h, _ := p.recv(); len(h.Read) != 0 {
		t.Errorf("a short reply: %+v", h)
	}
	if st := s.Stats(); st.Dones != 1 || st.Exposed != 0 || st.Dropped != 2 {
		t.Errorf("%+v", st)
	}
	b, err := p.fetch(&h)
	if _, ok := errors.AsType[*verbs.TerminateError](err); !ok || !bytes.Equal(b, make([]byte, len(b))) {
		t.Errorf("a late read: %v", err)
	}
	p.wantEnd()
}

// TestNeverDone: a peer that never says RDMA_DONE is given so many replies and no more,
// and its credits dwindle, while others are served.
func TestNeverDone(t *testing.T) {
	cfg := config5666()
	cfg.RFC5666.MaxExposed, cfg.Credits = 4, 12
	s, addr := startServer(t, newEcho(), cfg)
	good := dial(t, addr, config5666())
	p := exposedReader(t, addr)
	for xid := range uint32(7) {
		p.ask(xid, 2000)
		if xid == 0 {
			p.exposed() // one call until the first reply
		}
	}
	for xid := uint32(1); xid < 4; xid++ {
		if h := p.exposed(); h.XID != xid || h.Credit != max(8-(xid+1), xid+2) {
			t.Errorf("reply %d: %+v", xid, h)
		}
	}
	waitFor(t, "the others are withheld", func() bool { return s.Stats().Withheld == 3 })
	if st := s.Stats(); st.Exposed != 4 {
		t.Errorf("%+v", st)
	}
	for range 20 {
		wantFill(t, mustDo(t, good, wordCall(procFill, 9000)), 9000)
	}
	for xid := uint32(4); xid < 7; xid++ {
		p.done(xid - 2) // in any order
		if h := p.exposed(); h.XID != xid || h.Credit == 0 {
			t.Errorf("after an RDMA_DONE: %+v", h)
		}
	}
	p.conn.Abort(nil)
	waitFor(t, "all is freed", func() bool { return s.Stats().Exposed == 0 && s.Stats().Connections == 1 })
}

// TestDoneTimeout: a client that says nothing loses its connection after DoneTimeout,
// counted from the oldest reply; one that is in time does not.
func TestDoneTimeout(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			cfg := config5666()
			cfg.RFC5666.DoneTimeout = 10 * time.Second
			a, b := rdmaptest.Pipe()
			s := &transport.Server{Handler: newEcho(), Config: unwatched(cfg)}
			served := make(chan error, 1)
			go func() { served <- s.ServeConn(b) }()
			p := &rawPeer{t, rdmap.Client(a, rawConfig(nil, 1024))}
			noErr(t, p.conn.Handshake(t.Context()))
			start := time.Now()
			for xid := range uint32(4) {
				p.ask(xid, 5001)
				p.exposed()
				time.Sleep(4 * time.Second)
				if xid > 0 || !late {
					p.done(xid)
				}
				if p.conn.Err() != nil {
					break
				}
			}
			synctest.Wait()
			if over := p.conn.Err() != nil; over != late {
				t.Errorf("late %v: over %v", late, over)
			}
			p.conn.Close()
			err := <-served
			if late != errors.Is(err, responder.ErrNoDone) || late && time.Since(start) > 13*time.Second {
				t.Errorf("late %v: %v after %v", late, err, time.Since(start))
			}
			s.Close()
		})
	}
}

// TestShutdownExposed: Shutdown waits until exposed replies have been read, or ctx ends.
func TestShutdownExposed(t *testing.T) {
	for _, says := range []bool{true, false} {
		s, addr := startServer(t, newEcho(), config5666())
		p := exposedReader(t, addr)
		p.ask(1, 5001)
		h := p.exposed()
		ctx, cancel := context.WithCancel(testCtx(t))
		down := make(chan error, 1)
		go func() { down <- s.Shutdown(ctx) }()
		waitFor(t, "it shuts down", s.IsClosing)
		if b, err := p.fetch(&h); err != nil || !bytes.Equal(b, filled(5001)) {
			t.Errorf("during Shutdown: %v", err)
		}
		if says {
			p.done(1)
		} else {
			cancel()
		}
		if err := <-down; says != (err == nil) || !says && !errors.Is(err, context.Canceled) {
			t.Errorf("with an RDMA_DONE %v: %v", says, err)
		}
		cancel()
		p.wantEnd()
	}
}

// exposedTalk has replies read, several at once.
func exposedTalk(t *testing.T, c rpc.Caller) error {
	errs := make(chan error, 2)
	for _, call := range []*rpc.Call{wordCall(procFill, 6001), wordCall(procList, 2500)} {
		go func() { errs <- try(t, c, call) }()
	}
	err := <-errs
	if again := <-errs; err == nil {
		err = again
	}
	if err != nil {
		return err
	}
	return try(t, c, echoCall(filled(5001)))
}
