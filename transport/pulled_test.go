package transport_test

import (
	"context"
	"math"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

// where says of each call in which goroutine its handler runs, and waits until it may continue.
type where struct {
	blocks bool
	stack  chan string
	leave  chan struct{}
}

func (h where) Describe(_ *rpc.Request) rpc.Traits {
	return rpc.Traits{Blocks: h.blocks}
}

func (h where) ServeRPC(_ context.Context, req *rpc.Request, _ *rpc.Response) {
	if len(req.Args) > 0 {
		h.stack <- string(debug.Stack())
		<-h.leave
	}
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

// TestPulledCallCut: the connection ends while such a call runs in the goroutine that reads,
// by either side, and whether or not another one reads meanwhile.
func TestPulledCallCut(t *testing.T) {
	for _, grace := range []time.Duration{-1, 0} {
		for _, byServer := range []bool{false, true} {
			for name, call := range pulledCalls {
				cfg := testConfig()
				cfg.Reading.HandlerLimit = grace
				h := where{false, make(chan string), make(chan struct{})}
				s, c := pair(t, h, cfg, nil)
				mustDo(t, c, &nullCall) // brings credits
				done := make(chan error, 1)
				go func() { done <- try(t, c, &call) }()
				<-h.stack
				if byServer {
					s.Close()
				} else {
					c.Conn().Abort(nil)
				}
				if err := <-done; err == nil {
					t.Errorf("%s: a reply", name)
				}
				h.leave <- struct{}{}
				if err := s.Shutdown(testCtx(t)); err != nil { // waits for the call
					t.Error(err)
				}
				if st := s.Stats(); st.InFlight != 0 || st.OctetsLent != 0 || st.Pulls != 0 {
					t.Errorf("%s, %v, %v: left behind: %+v", name, grace, byServer, st)
				}
			}
		}
	}
}
