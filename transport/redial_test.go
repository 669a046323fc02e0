package transport_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/redial"
	"github.com/stag-rdma/stag/transport/rpc"
)

// network connects redial.Callers to a server over connections in memory, which tests cut.
type network struct {
	s      *transport.Server
	client *transport.Config
	mu     sync.Mutex
	live   []*rdmaptest.Conn
	faulty []*rdmaptest.Faulty
	wg     sync.WaitGroup
	stream func(n int) bool // whether the nth connection is record-marked
	made   int
	card   *rdmaptest.Card // nil: TCP and the engine
	cards  []*rdmaptest.Device
}

func newNetwork(h rpc.Handler, server, client *transport.Config) *network {
	return &network{s: &transport.Server{Handler: h, Config: server}, client: client}
}

// dial is a redial.Config.Dial.
func (w *network) dial(ctx context.Context) (redial.Conn, error) {
	w.mu.Lock()
	n := w.made
	w.made++
	a, b := rdmaptest.Pipe()
	if w.card != nil && (w.stream == nil || !w.stream(n)) {
		x, y := w.card.Devices()
		w.cards = append(w.cards, x)
		w.mu.Unlock()
		w.wg.Go(func() { w.s.ServeConn(seenAt(y, b.RemoteAddr())) }) // the same client, however it comes
		return transport.NewClient(ctx, x, w.client)
	}
	w.live = append(w.live, a)
	f := rdmaptest.Wrap(a, rdmaptest.Faults{})
	w.faulty = append(w.faulty, f)
	w.mu.Unlock()
	if w.stream != nil && w.stream(n) {
		w.wg.Go(func() { w.s.ServeStreamConn(b) })
		return transport.NewStreamClient(context.Background(), f, w.client)
	}
	w.wg.Go(func() { w.s.ServeConn(b) })
	return transport.NewClient(ctx, f, w.client)
}

// cut resets all connections.
func (w *network) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.live {
		c.Reset()
	}
	for _, c := range w.cards {
		c.End(io.ErrUnexpectedEOF, false)
	}
	w.live, w.cards = nil, nil
}

// end closes what is left.
func (w *network) end() {
	w.s.Close()
	w.wg.Wait()
}

// quick makes a redial.Caller that comes back at once.
func quick(t testing.TB, w *network, change func(*redial.Config)) *redial.Caller {
	t.Helper()
	cfg := &redial.Config{Dial: w.dial, MinDelay: time.Microsecond, MaxDelay: 100 * time.Microsecond, Transmissions: -1}
	if c, ok := card(t); ok {
		w.card = &c
	}
	if change != nil {
		change(cfg)
	}
	r := must(redial.New(cfg))(t)
	return r
}

// latch holds up the first execution of each call until the test lets it go.
type latch struct {
	*once
	first chan uint32
}

func (g *latch) Describe(req *rpc.Request) rpc.Traits {
	t := g.once.Describe(req)
	t.Blocks = true
	return t
}

func (g *latch) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	if req.Proc != procNull {
		g.first <- req.XID
		<-g.leave
	}
	g.once.ServeRPC(ctx, req, resp)
}

// TestRedial cuts the connection under calls of every form: they are sent again with
// their XIDs, with memory registered anew, run once, and come back right; over RDMA and,
// in between, over TCP.
func TestRedial(t *testing.T) {
	settle(t)
	h := &latch{newOnce(), make(chan uint32, 16)}
	w := newNetwork(h, testConfig(), testConfig())
	w.stream = func(n int) bool { return n == 2 }
	var lost, again int
	r := quick(t, w, func(c *redial.Config) {
		c.Trace.Lost = func(error) { lost++ }
		c.Trace.Retransmit = func(xid, prog, _, proc uint32, n int) {
			if prog != testProg || proc == procNull || n < 2 {
				t.Errorf("call %x of %d, %d is sent for the %d-th time", xid, prog, proc, n)
			}
			h.mu.Lock()
			again++
			h.mu.Unlock()
		}
	})
	mustDo(t, r, &nullCall)
	mustDo(t, r, &nullCall)
	var wg sync.WaitGroup
	sizes := []int{0, 30, 5001, 100_003}
	for _, n := range sizes {
		wg.Go(func() {
			p := filled(n)
			call, sink := echoCall(p), make([]byte, n)
			freed := 0
			call.Sink, call.MaxResults, call.Free, call.Repeatable = sink, max(64, n+64), func() { freed++ }, true
			var reply rpc.Reply
			if err := r.Do(testCtx(t), call, &reply); err != nil {
				t.Error(err)
				return
			}
			if status, got := flat(t, &reply); status != "ok" || len(got) < 4+n || !bytes.Equal(got[4:4+n], p) {
				t.Errorf("%d octets: %s, %d octets came back", n, status, len(got))
			}
			reply.Release()
			if freed != 1 {
				t.Errorf("Free was called %d times", freed)
			}
		})
	}
	xids := map[uint32]bool{}
	for range sizes {
		xids[<-h.first] = true
	}
	for n := range 3 { // to RDMA, to TCP, to RDMA
		w.cut()
		waitFor(t, "all wait for the first ones", func() bool { return w.s.Stats().Joined == uint64((n+1)*len(sizes)) })
	}
	close(h.leave)
	wg.Wait()
	if len(xids) != len(sizes) {
		t.Errorf("%d XIDs", len(xids))
	}
	for xid := range xids {
		if n := h.times(xid); n != 1 {
			t.Errorf("call %x ran %d times", xid, n)
		}
	}
	if st := r.Stats(); st.Accepted != 4 || st.Retransmits != 12 || st.Replies != 6+2 || st.Calls != 18+2 || st.InFlight != 0 || st.Connections != 1 {
		t.Errorf("%+v", st)
	}
	if lost != 3 || again != 12 {
		t.Errorf("traced %d ends, %d transmissions", lost, again)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := try(t, r, &nullCall); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	w.end()
}

// TestShortConnections: connections that end before their first reply are failures, and
// are not made without end in a tight loop.
func TestShortConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *network
		fails := 5
		h := rpc.HandlerFunc(func(context.Context, *rpc.Request, *rpc.Response) {
			if fails--; fails >= 0 {
				w.cut()
			}
		})
		w = newNetwork(h, unwatched(testConfig()), unwatched(testConfig()))
		r := quick(t, w, func(c *redial.Config) { c.MinDelay, c.MaxDelay = time.Second, time.Minute })
		start := time.Now()
		noErr(t, tryCtx(t.Context(), r, &nullCall))
		if d := time.Since(start); d < 15500*time.Millisecond || d > 31*time.Second+100*time.Millisecond {
			t.Errorf("five connections failed within %v", d)
		}
		w.cut()
		start = time.Now()
		noErr(t, tryCtx(t.Context(), r, &nullCall))
		if d := time.Since(start); d > 100*time.Millisecond {
			t.Errorf("a connection that has worked was replaced after %v", d)
		}
		r.Close()
		w.end()
		time.Sleep(time.Minute)
	})
}
