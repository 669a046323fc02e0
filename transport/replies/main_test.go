package replies_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/redial"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// TestMain fails the package if a test leaks a goroutine.
func TestMain(m *testing.M) { rdmaptest.Main(m) }

// program doubles a word (procedure 1, to be pushed) or says how often it has (2).
const program = 400000

type program1 struct{ runs atomic.Uint32 }

func (p *program1) ServeRPC(_ context.Context, req *rpc.Request, resp *rpc.Response) {
	d := xdr.NewDecoder(req.Args)
	switch req.Proc {
	case 1:
		p.runs.Add(1)
		resp.Results = xdr.AppendUint32(resp.Results, 2*d.Uint32())
	case 2:
		resp.Results = xdr.AppendUint32(resp.Results, p.runs.Load())
	case 3:
		resp.AppendItem(make([]byte, d.Uint32()))
	case 4:
		panic("as asked")
	}
}

func (*program1) Describe(req *rpc.Request) rpc.Traits {
	return rpc.Traits{Once: req.Proc != 2}
}

// world is a server.
type world struct {
	t      *testing.T
	prog   program1
	pusher *replies.Pusher
	server *transport.Server
	logs   net.Listener
	rpc    string
	rawRPC string // not recorded, whatever comes
	done   []func()
}

func start(t *testing.T, p *replies.Pusher) *world {
	t.Helper()
	w := &world{t: t, pusher: p}
	if p.Handler == nil {
		p.Handler = &w.prog
	}
	logs, calls := listen(t), listen(t)
	w.logs = logs
	if p.Addr == "" {
		p.Addr = recorded(t, logs.Addr().String())
	}
	w.server = &transport.Server{Handler: p, Config: &transport.Config{Logger: zap.NewNop()}} // procedure 4 panics, as asked
	w.rawRPC = calls.Addr().String()
	w.rpc = recorded(t, w.rawRPC)
	w.serve(func() { _ = p.Serve(logs) })
	w.serve(func() { _ = w.server.Serve(calls) })
	t.Cleanup(w.stop)
	return w
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (w *world) serve(f func()) {
	over := make(chan struct{})
	go func() { f(); close(over) }()
	w.done = append(w.done, func() { <-over })
}

func (w *world) stop() {
	_ = w.pusher.Close()
	_ = w.server.Close()
	for _, f := range w.done {
		f()
	}
	w.done = nil
}

func sim(ring int) *pmemtest.Sim { return pmemtest.NewSim(20480+ring, nil) }

// faulty is a memory whose flushes fail or hang as f says.
func faulty(ring int) (m *pmemtest.Sim, f *pmemtest.Faults) {
	f = pmemtest.NewFaults()
	return pmemtest.NewSim(20480+ring, &pmemtest.SimOptions{Hook: f.Hook()}), f
}

// open makes a client; dial tells the server's address.
func open(t *testing.T, mem region.Memory, addr func() string) *replies.Client {
	t.Helper()
	c, err := replies.Open(&replies.Config{
		Memory: mem,
		Redial: redial.Config{
			Dial: func(ctx context.Context) (redial.Conn, error) {
				return transport.Dial(ctx, "tcp", addr(), nil)
			},
			MinDelay: time.Millisecond, MaxDelay: 10 * time.Millisecond,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (w *world) open(mem region.Memory) *replies.Client {
	w.t.Helper()
	c := open(w.t, mem, func() string { return w.rpc })
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

func created(t *testing.T, mem region.Memory) {
	t.Helper()
	if err := replies.Create(mem, &commitlog.Options{}); err != nil {
		t.Fatal(err)
	}
}

// double calls procedure 1.
func double(ctx context.Context, c *replies.Client, n uint32) (seq uint64, xid uint32, err error) {
	var reply rpc.Reply
	defer reply.Release()
	seq, err = c.Call(ctx, &rpc.Call{Prog: program, Vers: 1, Proc: 1, Args: xdr.AppendUint32(nil, n), Repeatable: true}, &reply)
	if err == nil && (reply.Header.Err() != nil || binary.BigEndian.Uint32(reply.Results) != 2*n) {
		err = fmt.Errorf("%+v %x", reply.Header, reply.Results)
	}
	return seq, reply.Header.XID, err
}

// calling has three goroutines call double until it is stopped, and tells then of each reply.
func calling(t *testing.T, c *replies.Client, then func(seq uint64, xid uint32)) (stop func()) {
	var wg sync.WaitGroup
	over := make(chan struct{})
	for range 3 {
		wg.Go(func() {
			for n := uint32(0); ; n++ {
				select {
				case <-over:
					return
				default:
				}
				seq, xid, err := double(t.Context(), c, n)
				if err != nil {
					t.Error(err)
					return
				}
				then(seq, xid)
			}
		})
	}
	return func() { close(over); wg.Wait() }
}

// recorded returns an address behind which is addr, and what is said to it is recorded for
// the judge, if anything is (make judged).
func recorded(t testing.TB, addr string) string {
	t.Helper()
	return rdmaptest.Recorded(t, "replies.", addr)
}
