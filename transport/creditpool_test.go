package transport_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

// poolConfig is a configuration whose connections, but the first one, share n credits.
func poolConfig(n int64) *transport.Config {
	cfg := unwatched(testConfig())
	cfg.Limits.Memory = n * 80 << 10
	return cfg
}

// pipeClients connects n clients to s over pipes.
func pipeClients(t *testing.T, s *transport.Server, n int) []*transport.Client {
	t.Helper()
	var clients []*transport.Client
	var served sync.WaitGroup
	for range n {
		a, b := pipe(t)
		served.Go(func() {
			if err := s.ServeConn(b); err != nil {
				t.Error(err)
			}
		})
		c := must(transport.NewClient(testCtx(t), a, unwatched(testConfig())))(t)
		clients = append(clients, c)
	}
	t.Cleanup(func() {
		for _, c := range clients {
			c.Close()
		}
		served.Wait()
		s.Close()
		if n := s.Stats().PoolHeld; n != 0 {
			t.Errorf("%d credits held by nobody", n)
		}
	})
	return clients
}

// disk is echo whose echoes take a millisecond each.
type disk struct{ *echo }

func (disk) Describe(req *rpc.Request) rpc.Traits {
	return rpc.Traits{Blocks: req.Proc == procEcho}
}

func (h disk) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	if req.Proc == procEcho {
		time.Sleep(time.Millisecond)
	}
	h.echo.ServeRPC(ctx, req, resp)
}

// callers makes calls of a client by n callers, each of so many.
func callers(t *testing.T, wg *sync.WaitGroup, c *transport.Client, call *rpc.Call, n, each int) {
	ctx := testCtx(t)
	for range n {
		wg.Go(func() {
			for range each {
				if err := tryCtx(ctx, c, call); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
}

// TestCreditPool: three clients with 40 callers each beside 200 that make one call at a
// time share 96 credits. The busy ones get about equal parts of them, all together never
// more than there are, every call is answered, and each of the others has its one.
func TestCreditPool(t *testing.T) { synctest.Test(t, testCreditPool) }

func testCreditPool(t *testing.T) {
	const size, idle, busy = 96, 200, 3
	s := &transport.Server{Handler: disk{newEcho()}, Config: poolConfig(size)}
	clients := pipeClients(t, s, idle+busy)
	var wg sync.WaitGroup
	for _, c := range clients {
		callers(t, &wg, c, &nullCall, 1, 40)
	}
	wg.Wait()
	for i, c := range clients[idle:] {
		callers(t, &wg, c, echoCall(filled(20)), 40, 60-10*i)
	}
	// Who has how many at one moment is chance; on the average of many it is not.
	const looks = 20
	sums, held := make([]int, busy), 0
	for range looks { // while they work, and long before they end
		time.Sleep(5 * time.Millisecond)
		now := s.Stats().PoolHeld
		if now > size {
			t.Errorf("%d credits are held", now)
		}
		held += now
		for i, c := range clients[idle:] {
			sums[i] += c.Stats().Credits
		}
	}
	for _, c := range clients[:idle] {
		callers(t, &wg, c, &nullCall, 1, 1)
	}
	wg.Wait()
	if slices.Min(sums) < looks*8 || held < looks*size/2 {
		t.Errorf("the busy clients have %v credits, %d of %d are held, at %d looks together", sums, held, looks*size, looks)
	}
	ones := 0
	for _, c := range clients[:idle] {
		if c.Stats().Credits == 1 {
			ones++
		}
	}
	if ones < idle*3/4 {
		t.Errorf("only %d of %d idle clients have one credit", ones, idle)
	}
	st := s.Stats()
	if st.PoolCredits != size || st.PoolHeld > size || st.Calls != idle*41+busy*40+40*150 || st.Connections != idle+busy {
		t.Errorf("%+v", st)
	}
	t.Logf("%v credits of %d for the busy ones, %d held, at %d looks; %d of %d idle ones with one", sums, looks*size, held, looks, ones, idle)
}

// TestAbsurdCredits: what a client asks for is never granted beyond the limit, and a
// request for none is one for one (RFC 8166 Section 3.3.1); a refusal carries a grant too.
func TestAbsurdCredits(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  *transport.Config
		most uint32
	}{{"alone", testConfig(), 64}, {"pool", poolConfig(100), 1}} {
		t.Run(tt.name, func(t *testing.T) {
			_, addr := startServer(t, newEcho(), tt.cfg)
			if tt.name == "pool" {
				dial(t, addr, nil) // the first one has Credits
			}
			p := rawClient(t, addr, nil)
			for i, ask := range []uint32{0, 1, 2, 1<<31 - 1, 1 << 31, 1<<32 - 1, 3, 0} {
				xid, typ := uint32(i+1), uint32(0)
				want := min(max(ask, 1), tt.most)
				if i%2 == 1 {
					typ = 9 // refused with ERR_CHUNK
				}
				p.send(words(xid, 1, ask, typ, 0, 0, 0), rpcCall(xid, procNull))
				h, _ := p.recv()
				if h.XID != xid || h.Credit != want || (h.Type == rpcrdma.MsgTypeError) != (typ == 9) {
					t.Errorf("asked for %d: %v with %d credits, want %d", ask, h.Type, h.Credit, want)
				}
			}
		})
	}
}

// TestOverCredit: a client that keeps far more calls in flight than it was granted loses
// its connection, and with a pool sooner.
func TestOverCredit(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  *transport.Config
		most int
	}{{"alone", unwatched(testConfig()), 2*64 + 1}, {"pool", poolConfig(100), 4}} {
		t.Run(tt.name, func(t *testing.T) {
			h := newEcho()
			h.enter = make(chan struct{}, 1000)
			s, addr := startServer(t, h, tt.cfg)
			if tt.name == "pool" {
				dial(t, addr, nil)
			}
			p := rawClient(t, addr, nil)
			for i := range 2*tt.most + 4 {
				b := append(words(uint32(i), 1, 64, 0, 0, 0, 0), rpcCall(uint32(i), procBlock)...)
				if err := p.conn.Send(testCtx(t), b); err != nil {
					break
				}
			}
			p.wantEnd()
			if n := int(s.Stats().Calls); n > tt.most {
				t.Errorf("served %d calls of this client, want at most %d", n, tt.most)
			}
		})
	}
}
