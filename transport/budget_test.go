package transport

import (
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rpcrdma"
)

// anyClient is a client without limits.
func anyClient() *client {
	cl := &client{addr: "pipe", limits: (&Config{}).clientLimits(nil)}
	cl.share.init(cl.limits)
	return cl
}

// add changes what a budget has by n octets.
func (b *budget) add(n int) {
	b.mu.Lock()
	b.left.Add(int64(n))
	list := b.ready(new(share))
	b.mu.Unlock()
	begin(list)
}

func TestBudget(t *testing.T) {
	b := budget{pulls: 100}
	b.left.Store(10)
	var mu sync.Mutex
	var order []int
	woken := make(chan struct{}, 8)
	conns := [2]*respConn{{client: anyClient()}, {client: anyClient()}}
	wait := func(id, n int) bool {
		x := &exchange{rc: conns[id%2], then: func(*exchange) {
			mu.Lock()
			order = append(order, id)
			mu.Unlock()
			woken <- struct{}{}
		}}
		return b.takeOrWait(x, n)
	}
	if !wait(0, 8) || wait(1, 4) || wait(2, 1) {
		t.Fatal("10 octets: 8 must be there, 4 must wait, and 1 must not overtake")
	}
	if b.take(&exchange{rc: conns[0]}, 1) {
		t.Fatal("a new call overtakes those that wait")
	}
	b.add(2)
	<-woken
	b.add(1)
	<-woken
	if left := b.left.Load(); left != 0 {
		t.Errorf("%d octets left", left)
	}
	b.add(8)
	b.add(-20)
	if wait(3, 0) || wait(4, 0) || wait(5, 1) {
		t.Fatal("got octets from an overdrawn budget")
	}
	if got := b.forget(conns[1]); len(got) != 2 {
		t.Errorf("%d calls forgotten, want 2", len(got))
	}
	b.add(20)
	<-woken
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(order, []int{1, 2, 4}) || b.queued.Load() != 0 {
		t.Errorf("woken %v, %d queued", order, b.queued.Load())
	}
}

// TestBudgetQueue makes many large calls against memory for one and a half.
func TestBudgetQueue(t *testing.T) {
	cfg := testConfig()
	cfg.MaxPayload, cfg.RequestMemory = 128<<10, 192<<10
	s, addr := startServer(t, newEcho(), cfg)
	var wg sync.WaitGroup
	for range 3 {
		c := dial(t, addr, nil)
		for range 8 {
			wg.Go(func() {
				for range 3 {
					p := filled(100_000)
					call := echoCall(p)
					call.Sink, call.MaxResults = make([]byte, len(p)), 64
					var r Reply
					if err := c.Do(testCtx(t), call, &r); err != nil {
						t.Error(err)
						return
					}
					checkEcho(t, &r, p, call.Sink)
					r.Release()
				}
			})
		}
	}
	wg.Wait()
	waitFor(t, "all memory is back", func() bool { return s.budget.left.Load() == 192<<10 })
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

// TestSilentPeer offers a chunk and does not answer the RDMA Reads. Others are
// served, and the connection is given up (ADVERSARY row 20).
func TestSilentPeer(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.MaxPayload, cfg.RequestMemory = 128<<10, 128<<10
	cfg.PullTimeout = time.Second // also of the good one, on a busy machine
	s, addr := startServer(t, newEcho(), cfg)
	good := dial(t, addr, nil)

	a, b := rdmaptest.Pipe()
	sc := &stallConn{Conn: a, stall: make(chan struct{}), gone: make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- s.ServeConn(b) }()
	p := &rawPeer{t, rdmap.Client(sc, rawConfig(usualPrivate(), 4096))}
	if err := p.conn.Handshake(testCtx(t)); err != nil {
		t.Fatal(err)
	}
	close(sc.stall)
	seg := p.offer(make([]byte, 100_000), region.RemoteRead)
	h := rpcrdma.Header{XID: 1, Lists: chunks.Lists{Read: []chunks.ReadSegment{{Position: 44, Segment: seg}}}}
	p.send(header(h), rpcCall(1, procSum, words(100_000)...))
	waitFor(t, "the pull has begun", func() bool { return s.budget.left.Load() < 128<<10 })

	mustDo(t, good, itemCall(procSum, filled(100_000)))
	if err := <-served; !errors.Is(err, errPullTimeout) {
		t.Errorf("the silent connection ended with %v", err)
	}
	sc.Close() // its Read knows no deadline
	p.conn.Abort(nil)
	<-p.conn.Done()
	if left := s.budget.left.Load(); left != 128<<10 {
		t.Errorf("%d octets of memory left", left)
	}
}
