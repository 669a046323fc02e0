package transport_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// procTake is a procedure whose handler takes the data itself: opaque<>, then a word that
// says how; out comes the length and, if it took them, the octet sum.
const procTake = 20

// Ways to take the data, in procTake's second argument.
const (
	takeNot    = iota // refuse by the word behind the data
	takePull          // into pooled memory
	takeInto          // into three pieces of the handler's own
	takeStream        // by a Reader
	takeTwice         // pull again: misuse
	takeSize          // into buffers of another size: misuse; then the right ones
	takeKeep          // keep the Opaque beyond the call: misuse
	takeWait          // wait for the test, then pull
	takeCancel        // with a context that ends while the Reads are under way
	takeWays
)

// taker serves procTake; all else is echo's.
type taker struct {
	*once
	kept   chan *rpc.Opaque
	pulled chan error // of takeWait and takeCancel
}

func newTaker() *taker {
	return &taker{once: newOnce(), kept: make(chan *rpc.Opaque, 1), pulled: make(chan error, 8)}
}

func (h *taker) Describe(req *rpc.Request) rpc.Traits {
	t := h.once.Describe(req)
	t.Lazy = req.Prog == testProg && req.Proc == procTake
	return t
}

func (h *taker) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	if req.Proc != procTake {
		h.once.ServeRPC(ctx, req, resp)
		return
	}
	h.mu.Lock()
	h.ran[req.XID]++
	h.mu.Unlock()
	d := xdr.NewDecoder(req.Args)
	o := req.Opaque(&d, 8<<20)
	how := d.Uint32()
	if d.End() != nil {
		resp.Stat = xdr.GarbageArgs
		return
	}
	resp.Results = xdr.AppendUint32(resp.Results, uint32(o.Len()))
	data, err := h.take(ctx, &o, how)
	if err != nil {
		resp.Stat = xdr.SystemErr
		return
	}
	if data != nil {
		resp.Results = xdr.AppendUint32(resp.Results, sum(data))
	}
}

// take returns the data, nil if they were not to be taken.
func (h *taker) take(ctx context.Context, o *rpc.Opaque, how uint32) ([]byte, error) {
	own := make([]byte, o.Len())
	switch how {
	case takePull:
		return o.Pull(ctx)
	case takeInto:
		a, b := o.Len()/3, o.Len()/2
		bufs := net.Buffers{own[:a], own[a:a], own[a:b], own[b:]}
		return own, o.PullInto(ctx, bufs...)
	case takeStream:
		var b bytes.Buffer
		_, err := io.CopyBuffer(&b, struct{ io.Reader }{o.Reader(ctx)}, make([]byte, 9999))
		return b.Bytes(), err
	case takeTwice:
		data, err := o.Pull(ctx)
		if e := o.PullInto(ctx, own); !errors.Is(e, rpc.ErrPulled) && o.Len() > 0 {
			return nil, fmt.Errorf("second pull: %v", e)
		}
		return data, err
	case takeSize:
		if e := o.PullInto(ctx, own, make([]byte, 1)); !errors.Is(e, rpc.ErrPullSize) {
			return nil, fmt.Errorf("pull of too much: %v", e)
		}
		return own, o.PullInto(ctx, own)
	case takeKeep:
		h.kept <- o
	case takeWait:
		h.enter <- struct{}{}
		<-h.leave
		data, err := o.Pull(ctx)
		h.pulled <- err
		return data, err
	case takeCancel:
		ctx, cancel := context.WithCancel(ctx)
		go func() {
			<-h.enter
			cancel()
		}()
		err := o.PullInto(ctx, own)
		clear(own) // the memory is the handler's again: the race detector looks on
		h.pulled <- err
		return own, err
	}
	return nil, nil
}

// takeCall is a call of procTake.
func takeCall(p []byte, how uint32) *rpc.Call {
	c := itemCall(procTake, p)
	c.Args = xdr.AppendUint32(c.Args, how)
	return c
}

// wantTaken checks the reply of procTake.
func wantTaken(t testing.TB, r *rpc.Reply, p []byte, took bool) {
	t.Helper()
	d := xdr.NewDecoder(r.Results)
	n := d.Uint32()
	if took && d.Uint32() != sum(p) {
		t.Errorf("wrong octets arrived")
	}
	if int(n) != len(p) || d.End() != nil {
		t.Errorf("%d octets arrived as %d, %v", len(p), n, d.End())
	}
}

// TestLazy takes arguments in every way, however they come: a handler cannot tell. Not an
// octet is read of those that it does not ask for, and none twice: the Read Requests that
// the client has received are counted.
func TestLazy(t *testing.T) {
	h := newTaker()
	s, addr := startServer(t, h, nil)
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	go s.ServeStream(l)
	stream := must(transport.DialStream(testCtx(t), "tcp", l.Addr().String(), nil))(t)
	defer stream.Close()
	chunked, long := dial(t, addr, nil), dial(t, addr, &transport.Config{})
	for _, way := range []struct {
		name string
		c    rpc.Caller
		conn *rdmap.Conn
	}{{"chunk", chunked, chunked.Conn()}, {"position zero", long, long.Conn()}, {"tcp", stream, nil}} {
		for _, n := range []int{0, 1, 100, 2049, 70_001, 1 << 20} {
			for how := range uint32(takeKeep) {
				before, reads := s.Stats(), readsIn(way.conn)
				p := filled(n)
				wantTaken(t, mustDo(t, way.c, takeCall(p, how)), p, how != takeNot)
				st := s.Stats()
				moved, left := int(st.OctetsRead-before.OctetsRead), st.Unpulled-before.Unpulled
				asked, deferred := readsIn(way.conn)-reads, st.Deferred-before.Deferred
				switch {
				case way.name != "chunk" && deferred+left != 0:
					t.Errorf("%s, %d octets: deferred", way.name, n)
				case way.name != "chunk" || n < 2048:
				case how == takeNot && (moved != 0 || asked != 0 || left != 1):
					t.Errorf("%d octets that nobody wants: %d were read by %d Reads, %d calls unpulled", n, moved, asked, left)
				case how != takeNot && (moved != n || asked == 0 || left != 0), deferred != 1:
					t.Errorf("way %d, %d octets: %d were read by %d Reads, %d calls deferred, %d unpulled", how, n, moved, asked, deferred, left)
				}
			}
		}
	}
	mustDo(t, chunked, takeCall(filled(9000), takeKeep))
	o := <-h.kept
	if _, err := o.Pull(t.Context()); !errors.Is(err, rpc.ErrPullLate) {
		t.Errorf("pull after the call: %v", err)
	}
	if err := o.PullInto(t.Context(), make([]byte, 9000)); err == nil {
		t.Error("pull after the call")
	}
	wantStatus(t, chunked, &rpc.Call{Prog: testProg, Vers: testVers, Proc: procTake}, xdr.GarbageArgs)
}

// readsIn returns the RDMA Read Requests that a connection has received.
func readsIn(c *rdmap.Conn) uint64 {
	if c == nil {
		return 0
	}
	return c.Stats().ReadsIn
}

// TestLazyMemory: a call whose data stay at the client has its share of Limits.Memory all
// the same, gives it back, and leaves the reader free while its handler waits.
func TestLazyMemory(t *testing.T) {
	h := newTaker()
	cfg := unwatched(testConfig())
	cfg.MaxPayload, cfg.Limits.Memory = 128<<10, 256<<10
	s, addr := startServer(t, h, cfg)
	var wg sync.WaitGroup
	a, b := dial(t, addr, nil), dial(t, addr, nil)
	mustDo(t, a, &nullCall)
	mustDo(t, b, &nullCall)
	p := filled(100_000)
	for _, c := range []*transport.Client{a, b} {
		for range 3 {
			wg.Go(func() { wantTaken(t, mustDo(t, c, takeCall(p, takeWait)), p, true) })
		}
	}
	<-h.enter
	<-h.enter // one of each connection: who is alone need not wait
	mustDo(t, a, &nullCall)
	select {
	case <-h.enter:
		t.Error("a third handler runs though there is memory for one")
	default:
	}
	close(h.leave)
	wg.Wait()
	waitFor(t, "the budget is back", func() bool { return s.Stats().Held == 0 })
}

// TestLazyNoORD: nothing can be read of a peer that serves no Reads, so its call is refused,
// and costs nothing.
func TestLazyNoORD(t *testing.T) {
	for name, x := range map[string]struct {
		h    rpc.Handler
		call *rpc.Call
	}{
		"deferred": {newTaker(), takeCall(filled(9000), takePull)},
		"at once":  {newEcho(), itemCall(procSum, filled(9000))},
	} {
		s, addr := startServer(t, x.h, nil)
		cfg := testConfig()
		cfg.Startup.IRD = -1 // none
		c := dial(t, addr, cfg)
		if e, ok := errors.AsType[*rpc.RPCError](try(t, c, x.call)); !ok || e.Reason != rpc.ReasonChunk {
			t.Errorf("%s: %v", name, e)
		}
		if st := s.Stats(); st.OctetsLent != 0 || st.Connections != 1 {
			t.Errorf("%s: %+v", name, st)
		}
	}
}
