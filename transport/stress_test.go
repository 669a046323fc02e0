package transport_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/internal/mem"
	"github.com/stag-rdma/stag/transport/rpc"
)

// choppyConn reads and writes in odd pieces.
type choppyConn struct {
	net.Conn
	mu  sync.Mutex
	rnd *rand.Rand
}

func (c *choppyConn) piece(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rnd.IntN(4) == 0 {
		return min(n, c.rnd.IntN(50)+1)
	}
	return n
}

func (c *choppyConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return c.Conn.Read(p[:c.piece(len(p))])
}

func (c *choppyConn) Write(p []byte) (done int, err error) {
	for done < len(p) && err == nil {
		var n int
		n, err = c.Conn.Write(p[done : done+c.piece(len(p)-done)])
		done += n
	}
	return done, err
}

// TestStress runs callers of all forms against a server whose handlers sometimes
// block, over a wire that cuts everything into pieces; some calls are cancelled, and
// some connections end in the middle. Whatever came back must be right, and nothing
// may stay.
func TestStress(t *testing.T) {
	const seed = 3
	t.Logf("seed %d", seed)
	settle(t)
	for round := range uint64(6) {
		stressRound(t, rand.New(rand.NewPCG(seed, round)), round%2 == 1)
	}
}

// slowEcho is echo whose calls of one in eight block for a moment in a goroutine,
// and one in 64 in the reader.
type slowEcho struct {
	*echo
	n atomic.Uint32
}

func (e *slowEcho) Describe(_ *rpc.Request) rpc.Traits {
	return rpc.Traits{Blocks: e.n.Add(1)%8 == 0}
}

func (e *slowEcho) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	if e.n.Load()%8 == 0 {
		time.Sleep(50 * time.Microsecond)
	}
	if e.n.Load()%64 == 1 {
		time.Sleep(2 * time.Millisecond)
	}
	e.echo.ServeRPC(ctx, req, resp)
}

func stressRound(t *testing.T, rnd *rand.Rand, breakIt bool) {
	a, b := rdmaptest.PipeSize(10_000)
	before := mem.Shared.Live()
	cfg := testConfig()
	cfg.Credits, cfg.Limits.Memory, cfg.MaxPayload = 9, 300_000, 150_000
	s := &transport.Server{Handler: &slowEcho{echo: newEcho()}, Config: cfg}
	served := make(chan error, 1)
	sc := &choppyConn{Conn: b, rnd: rand.New(rand.NewPCG(rnd.Uint64(), 1))}
	cc := &choppyConn{Conn: a, rnd: rand.New(rand.NewPCG(rnd.Uint64(), 2))}
	go func() { served <- s.ServeConn(sc) }()
	c, err := transport.NewClient(testCtx(t), cc, testConfig())
	if err != nil {
		t.Fatal(err)
	}
	engines := append(enginesOf(s), c.Conn())
	var wg sync.WaitGroup
	for range 24 {
		caller := rand.New(rand.NewPCG(rnd.Uint64(), 3))
		wg.Go(func() { stressCaller(t, c, caller, breakIt) })
	}
	if breakIt {
		time.Sleep(time.Duration(rnd.IntN(5000)) * time.Microsecond)
		if rnd.IntN(2) == 0 {
			a.Reset()
		} else {
			c.Close()
		}
	}
	wg.Wait()
	c.Close()
	<-served
	for _, e := range engines {
		<-e.Done()
		if n := e.Table().Live(); n != 0 {
			t.Errorf("%d live STags", n)
		}
	}
	waitFor(t, "all buffers are back", func() bool { return mem.Shared.Live() == before })
	if held := s.Stats().Held; held != 0 {
		t.Errorf("%d octets of memory held", held)
	}
}

// stressCaller makes random calls, and cancels some.
func stressCaller(t *testing.T, c *transport.Client, rnd *rand.Rand, broken bool) {
	for range 15 {
		n := []int{0, 10, 1000, 3000, 20_000, 100_000}[rnd.IntN(6)] + rnd.IntN(5)
		p := filled(n)
		call := echoCall(p)
		call.Sink, call.MaxResults = make([]byte, n), 64
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		if rnd.IntN(5) == 0 {
			time.AfterFunc(time.Duration(rnd.IntN(300))*time.Microsecond, cancel)
		}
		var r rpc.Reply
		err := c.Do(ctx, call, &r)
		cancel()
		switch {
		case err == nil:
			checkEcho(t, &r, p, call.Sink)
		case errors.Is(err, context.Canceled), broken && errors.Is(err, net.ErrClosed):
		default:
			t.Error(err)
		}
		r.Release()
	}
}
