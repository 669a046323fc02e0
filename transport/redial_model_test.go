package transport_test

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/redial"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

var modelSteps = flag.Int("model.steps", 20_000, "calls of TestOnceModel")

// ledger is echo that counts how often each payload ran; its first octets name the call.
type ledger struct {
	*echo
	mu  sync.Mutex
	rnd *rand.Rand
	ran map[uint64]int
}

// changes names the calls that must not run twice.
func (*ledger) changes(prog, _, proc uint32) bool { return prog == testProg && proc == procEcho }

// Describe says of half of the calls that they may block.
func (h *ledger) Describe(req *rpc.Request) rpc.Traits {
	h.mu.Lock()
	defer h.mu.Unlock()
	return rpc.Traits{Blocks: h.rnd.IntN(2) == 0, Once: h.changes(req.Prog, req.Vers, req.Proc)}
}

func (h *ledger) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	if req.Proc == procEcho {
		id := binary.BigEndian.Uint64(req.Args[4:])
		h.mu.Lock()
		h.ran[id]++
		long := h.rnd.IntN(8) == 0
		h.mu.Unlock()
		if long { // long enough to be met by its duplicate
			time.Sleep(time.Millisecond)
		}
	}
	h.echo.ServeRPC(ctx, req, resp)
}

// modelNetwork makes connections that end after some octets, in one direction or the
// other, in every way: within the start-up, a frame, a pull, a reply.
type modelNetwork struct {
	s   *transport.Server
	l   *pipeListener // instead of s for RDMA, if not nil
	mu  sync.Mutex
	rnd *rand.Rand
	wg  sync.WaitGroup
	n   int
}

func (w *modelNetwork) dial(ctx context.Context) (redial.Conn, error) {
	a, b := rdmaptest.Pipe()
	w.mu.Lock()
	w.n++
	stream := w.rnd.IntN(5) == 0 && w.l == nil
	fault := rdmaptest.Fault{Cut: []rdmaptest.Cut{rdmaptest.CutReset, rdmaptest.CutReset, rdmaptest.CutEnd, rdmaptest.CutSilence}[w.rnd.IntN(4)]}
	fault.CutAt = int64(w.rnd.IntN(200))
	if w.rnd.IntN(8) > 0 {
		fault.CutAt = int64(w.rnd.IntN(150_000))
	}
	faults := rdmaptest.Faults{In: fault, Seed: w.rnd.Uint64()}
	if w.rnd.IntN(2) == 0 {
		faults.In, faults.Out = faults.Out, faults.In
	}
	w.mu.Unlock()
	cfg := unwatched(testConfig())
	cfg.Startup.Timeout = 5 * time.Second
	if stream {
		w.wg.Go(func() { w.s.ServeStreamConn(b) })
		return transport.NewStreamClient(context.Background(), rdmaptest.Wrap(a, faults), cfg)
	}
	if w.l != nil {
		w.l.put(b)
	} else {
		w.wg.Go(func() { w.s.ServeConn(b) })
	}
	return transport.NewClient(ctx, rdmaptest.Wrap(a, faults), cfg)
}

// numbered is a connection of a client that counts its calls from 1 on: all clients use the same XIDs.
type numbered struct {
	redial.Conn
	xid *atomic.Uint32
}

func (c numbered) Do(ctx context.Context, call *rpc.Call, reply *rpc.Reply) error {
	if call.Resend.Sent == 0 {
		call.Resend.XID = c.xid.Add(1)
	}
	return c.Conn.Do(ctx, call, reply)
}

// TestOnceModel: clients whose connections end all the time, with the same XIDs and behind
// the same address, call procedures that must run once. Each call runs exactly once, or
// if it was cancelled at most once; each caller gets its own reply. -model.steps makes it
// longer.
func TestOnceModel(t *testing.T) { runOnceModel(t, onceModel) }

func runOnceModel(t *testing.T, onceModel func(t *testing.T, seed uint64, steps int)) {
	t.Helper()
	steps := *modelSteps
	if raceEnabled {
		steps /= 10
	}
	for seed := uint64(0); steps > 0; seed++ {
		n := min(steps, 10_000)
		steps -= n
		synctest.Test(t, func(t *testing.T) { onceModel(t, seed, n) })
	}
}

const (
	modelClients = 4
	modelCallers = 6
)

func onceModel(t *testing.T, seed uint64, steps int) {
	h := &ledger{echo: newEcho(), rnd: rand.New(rand.NewPCG(seed, 8)), ran: make(map[uint64]int)}
	w := &modelNetwork{s: &transport.Server{Handler: h, Config: onceConfig()}, rnd: rand.New(rand.NewPCG(seed, 9))}
	onceModelOver(t, seed, steps, h, w, w.s.Stats, func() { w.s.Close() })
}

// onceConfig is a server that forgets no reply.
func onceConfig() *transport.Config {
	cfg := unwatched(testConfig())
	cfg.Duplicates.Entries, cfg.Duplicates.Memory, cfg.Duplicates.Time = 1<<17, 1<<30, 24*time.Hour
	return cfg
}

// onceModelOver runs the model with a server that w reaches; stats and stop are its.
func onceModelOver(t *testing.T, seed uint64, steps int, h *ledger, w *modelNetwork, stats func() rpc.Stats, stop func()) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 7))
	var wg sync.WaitGroup
	var calls, cancelled atomic.Int64
	var all []*redial.Caller
	var ids atomic.Uint64
	must := make([]map[uint64]bool, modelClients*modelCallers)
	for client := range modelClients {
		var xid atomic.Uint32
		r, err := redial.New(&redial.Config{
			Dial: func(ctx context.Context) (redial.Conn, error) {
				c, err := w.dial(ctx)
				return numbered{c, &xid}, err
			},
			MinDelay: time.Millisecond, MaxDelay: time.Second,
			Silence: 2 * time.Second, Transmissions: -1,
		})
		noErr(t, err)
		all = append(all, r)
		cred := (&xdr.SysCred{MachineName: fmt.Sprint(client), UID: 1}).Auth()
		for caller := range modelCallers {
			mine := make(map[uint64]bool)
			must[client*modelCallers+caller] = mine
			own := rand.New(rand.NewPCG(rnd.Uint64(), 10))
			wg.Go(func() {
				for calls.Add(1) <= int64(steps) {
					id := ids.Add(1)
					ok := modelCall(t, r, own, id, cred)
					if mine[id] = ok; !ok {
						cancelled.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	var sum rpc.Stats
	for _, r := range all {
		s := r.Stats()
		sum.Retransmits, sum.Accepted, sum.Silences = sum.Retransmits+s.Retransmits, sum.Accepted+s.Accepted, sum.Silences+s.Silences
		r.Close()
	}
	stop()
	time.Sleep(time.Hour) // what was silenced times out
	w.wg.Wait()
	for _, mine := range must {
		for id, ok := range mine {
			if n := h.ran[id]; n > 1 || n < 1 && ok {
				t.Errorf("seed %d: call %d ran %d times", seed, id, n)
			}
		}
	}
	st := stats()
	t.Logf("seed %d: %d calls, %d cancelled, %d connections, %d silent, %d sent again, %d replayed, %d joined",
		seed, steps, cancelled.Load(), sum.Accepted, sum.Silences, sum.Retransmits, st.Replayed, st.Joined)
	if st.DRCEvicted != 0 || steps >= 1000 && (st.Replayed == 0 || st.Joined == 0 || sum.Silences == 0) {
		t.Errorf("the model does not reach the cases it is for: %+v", st)
	}
}

// modelCall makes one call and checks its reply; false: it was cancelled.
func modelCall(t *testing.T, r *redial.Caller, rnd *rand.Rand, id uint64, cred xdr.Auth) bool {
	n := []int{0, 0, 10, 10, 500, 500, 2500, 6000, 20_000}[rnd.IntN(9)]
	p := binary.BigEndian.AppendUint64(make([]byte, 0, 8+n), id)
	p = append(p, filled(n)...)
	call := echoCall(p)
	call.Cred, call.MaxResults, call.Repeatable = cred, len(p)+64, true
	if rnd.IntN(2) == 0 {
		call.Sink, call.MaxResults = make([]byte, len(p)), 64
	}
	var freed atomic.Int32
	call.Free = func() { freed.Add(1) }
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if rnd.IntN(20) == 0 {
		time.AfterFunc(time.Duration(rnd.IntN(3000))*time.Microsecond, cancel)
	}
	var reply rpc.Reply
	err := r.Do(ctx, call, &reply)
	defer reply.Release()
	if err != nil {
		if !errors.Is(err, context.Canceled) && ctx.Err() == nil {
			t.Errorf("call %d: %v", id, err)
		}
		return false
	}
	if freed.Load() != 1 {
		t.Errorf("call %d: memory freed %d times", id, freed.Load())
	}
	checkEcho(t, &reply, p, call.Sink)
	return true
}
