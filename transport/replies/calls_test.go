package replies_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/redial"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Procedure 5 waits until it is let go; it returns the XID it was called with.
type stuck struct {
	mu   sync.Mutex
	came chan uint32
	gate chan struct{}
	seen map[uint32]bool
}

func newStuck() *stuck {
	return &stuck{came: make(chan uint32, 64), gate: make(chan struct{}), seen: make(map[uint32]bool)}
}

func (*stuck) Describe(_ *rpc.Request) rpc.Traits {
	return rpc.Traits{Blocks: true, Once: true}
}

func (s *stuck) saw() (all map[uint32]bool) { return copied(&s.mu, s.seen) }
func copied(mu *sync.Mutex, m map[uint32]bool) (c map[uint32]bool) {
	mu.Lock()
	defer mu.Unlock()
	c = make(map[uint32]bool)
	for k := range m {
		c[k] = true
	}
	return c
}

func (s *stuck) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	s.mu.Lock()
	s.seen[req.XID] = true
	s.mu.Unlock()
	if req.Proc == 5 {
		s.came <- req.XID
		select {
		case <-s.gate:
		case <-ctx.Done():
		}
	}
	resp.Results = xdr.AppendUint32(resp.Results, req.XID)
}

// startStuck starts a server for it.
func startStuck(t *testing.T) (*world, *stuck) {
	t.Helper()
	s := newStuck()
	return start(t, &replies.Pusher{Handler: s}), s
}

// openBoth opens a client with a log of calls.
func openBoth(t *testing.T, w *world, mem, calls region.Memory) *replies.Client {
	t.Helper()
	return openChosen(t, w, mem, calls, nil)
}

func openChosen(t *testing.T, w *world, mem, calls region.Memory, choose func(prog, vers, proc uint32) bool) *replies.Client {
	t.Helper()
	c, err := replies.Open(&replies.Config{
		Memory: mem, Calls: calls, Choose: choose,
		Redial: redial.Config{
			Dial: func(ctx context.Context) (redial.Conn, error) {
				return transport.Dial(ctx, "tcp", w.rpc, nil)
			},
			MinDelay: time.Millisecond, MaxDelay: 10 * time.Millisecond,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// createBoth makes both logs and opens a client with them.
func createBoth(t *testing.T, w *world, mem, calls region.Memory) *replies.Client {
	t.Helper()
	created(t, mem)
	created(t, calls)
	return openBoth(t, w, mem, calls)
}

func callProc(ctx context.Context, c *replies.Client, proc uint32) (seq uint64, xid uint32, err error) {
	var reply rpc.Reply
	defer reply.Release()
	seq, err = c.Call(ctx, &rpc.Call{Prog: program, Vers: 1, Proc: proc, Args: []byte{0, 0, 0, 9}}, &reply)
	return seq, reply.Header.XID, err
}

// What was asked and not answered when the client crashed is told, once it is settled no
// more, and what was answered is not.
func TestUnanswered(t *testing.T) {
	w, server := startStuck(t)
	mem, calls := sim(1<<16), sim(1<<16)
	c := createBoth(t, w, mem, calls)
	if len(c.Unanswered()) != 0 {
		t.Fatal(c.Unanswered())
	}
	done, _, err := callProc(t.Context(), c, 1)
	if err != nil || done == 0 {
		t.Fatal(done, err)
	}
	c.Done(done)
	kept, keptXID, err := callProc(t.Context(), c, 2)
	if err != nil || kept == 0 {
		t.Fatal(kept, err)
	}
	over := make(chan struct{})
	go func() { defer close(over); _, _, _ = callProc(t.Context(), c, 5) }()
	xid := <-server.came
	crashed, crashedCalls := pmemtest.OpenSim(mem.Told().Durable(), nil), pmemtest.OpenSim(calls.Told().Durable(), nil)
	st, err := replies.Inspect(reader(crashed), reader(crashedCalls))
	if err != nil || len(st.Unanswered) != 1 || len(st.Replies) == 0 || st.Replies[len(st.Replies)-1].XID != keptXID {
		t.Fatal(st, err)
	}
	second := openBoth(t, w, crashed, crashedCalls)
	got := second.Unanswered()
	if len(got) != 1 || *got[0] != *st.Unanswered[0] {
		t.Fatalf("%+v", got)
	}
	want := replies.Issued{c.Epoch(), xid, program, 1, 5, replies.Digest(program, 1, 5, []byte{0, 0, 0, 9})}
	if *got[0] != want {
		t.Errorf("%+v, want %+v", *got[0], want)
	}
	if second.Epoch() <= c.Epoch() {
		t.Errorf("epoch %d after %d", second.Epoch(), c.Epoch())
	}
	close(server.gate)
	<-over
	// Not settled, it is found again, and so is the reply; then neither is.
	_ = second.Close()
	settled := pmemtest.OpenSim(crashedCalls.Bytes(), nil)
	second = openBoth(t, w, pmemtest.OpenSim(crashed.Bytes(), nil), settled)
	for _, i := range second.Unanswered() {
		second.Settle(i)
	}
	if len(second.Unanswered()) != 1 || len(second.Recovered()) != len(st.Replies) {
		t.Error(second.Unanswered(), second.Recovered())
	}
	for _, r := range second.Recovered() {
		second.Done(r.Seq)
	}
	_ = second.Close()
	third := openBoth(t, w, pmemtest.OpenSim(crashed.Bytes(), nil), settled)
	if len(third.Unanswered()) != 0 {
		t.Errorf("%+v", third.Unanswered())
	}
}

func reader(s *pmemtest.Sim) *io.SectionReader {
	return io.NewSectionReader(bytesReader(s.Bytes()), 0, int64(len(s.Bytes())))
}

type bytesReader []byte

func (b bytesReader) ReadAt(p []byte, off int64) (int, error) {
	n := copy(p, b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Crashes at any time under load: what has run at the server is known, by its reply or as
// unanswered, unless its caller was done with it; and nothing is unanswered whose reply its
// caller had.
func TestUnansweredCrashes(t *testing.T) {
	w, server := startStuck(t)
	mem, calls := sim(1<<16), sim(1<<16)
	c := createBoth(t, w, mem, calls)
	var mu sync.Mutex
	returned, done := make(map[uint32]bool), make(map[uint32]bool)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				seq, xid, err := callProc(ctx, c, 1+rand.Uint32N(2))
				if err != nil {
					return
				}
				mu.Lock()
				returned[xid] = true
				done[xid] = true
				mu.Unlock()
				c.Done(seq)
			}
		})
	}
	for range 20 {
		time.Sleep(time.Millisecond)
		had, ran := copied(&mu, returned), server.saw()
		a := mem.Told().Durable()
		b := calls.Told().Durable()
		were := copied(&mu, done)
		st, err := replies.Inspect(reader(pmemtest.OpenSim(a, nil)), reader(pmemtest.OpenSim(b, nil)))
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range st.Unanswered {
			if had[i.XID] {
				t.Errorf("call %x counts as unanswered, but was answered", i.XID)
			}
			were[i.XID] = true
		}
		for _, r := range st.Replies {
			were[r.XID] = true
		}
		for xid := range ran {
			if !were[xid] {
				t.Errorf("call %x has run, but nobody knows", xid)
			}
		}
	}
	stop()
	wg.Wait()
}

// The room of a reply is not given back before its call is struck out: while that cannot be
// written down, the reply is there.
func TestCallsBeforeReplies(t *testing.T) {
	w, server := startStuck(t)
	mem := sim(1 << 16)
	calls, f := faulty(1 << 16)
	c := createBoth(t, w, mem, calls)
	for range 20 {
		over := make(chan error)
		go func() {
			over <- c.Do(t.Context(), &rpc.Call{Prog: program, Vers: 1, Proc: 5}, new(rpc.Reply))
		}()
		<-server.came
		entered, release := f.Hang(pmem.OpPersist)
		server.gate <- struct{}{}
		if err := <-over; err != nil {
			t.Fatal(err)
		}
		<-entered
		st, err := replies.Inspect(reader(pmemtest.OpenSim(mem.Told().Durable(), nil)), reader(pmemtest.OpenSim(calls.Told().Durable(), nil)))
		release()
		if err != nil || len(st.Unanswered) > 0 {
			t.Fatalf("%+v, %v", st.Unanswered, err)
		}
	}
}

// A call that hangs does not fill the log of calls: it is copied.
func TestCallsCompact(t *testing.T) {
	w, server := startStuck(t)
	mem, calls := sim(1<<16), sim(replies.MinCalls-20480)
	c := createBoth(t, w, mem, calls)
	over := make(chan struct{})
	go func() { defer close(over); _, _, _ = callProc(t.Context(), c, 5) }()
	xid := <-server.came
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 150 { // together several times what the log holds
				seq, _, err := callProc(t.Context(), c, 1)
				if err != nil {
					t.Error(err)
					return
				}
				c.Done(seq)
			}
		})
	}
	wg.Wait()
	last := lastRecord(t, pmemtest.OpenSim(calls.Told().Durable(), nil))
	st, err := replies.Inspect(reader(pmemtest.OpenSim(mem.Told().Durable(), nil)), reader(pmemtest.OpenSim(calls.Told().Durable(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, i := range st.Unanswered {
		found = found || i.XID == xid
	}
	if !found || last < 1200 {
		t.Errorf("of %d records: %+v", last, st.Unanswered)
	}
	close(server.gate)
	<-over
}

// lastRecord returns the number of the last record of a log.
func lastRecord(t *testing.T, mem region.Memory) (seq uint64) {
	t.Helper()
	l, err := commitlog.Open(mem)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(context.Background())
	for {
		r, err := l.TryNext()
		if err != nil {
			t.Fatal(err)
		}
		if r == nil {
			return seq
		}
		seq = r.Seq
	}
}

// lazy is memory whose reader waits while it is shut.
type lazy struct {
	*pmemtest.Sim
	shut atomic.Pointer[chan struct{}]
}

func (l *lazy) Load(p []byte, off int) error {
	if shut := l.shut.Load(); shut != nil && off >= 20480 { // in the ring
		<-*shut
	}
	return l.Sim.Load(p, off)
}

// A client that does not get to read its log of calls does not fill it: it would have no
// room for the notes that give room.
func TestCallsUnread(t *testing.T) {
	w, server := startStuck(t)
	mem, calls := sim(1<<16), &lazy{Sim: sim(replies.MinCalls - 20480)}
	created(t, mem)
	created(t, calls)
	c := openBoth(t, w, mem, calls)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	shut := make(chan struct{})
	calls.shut.Store(&shut)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 60 { // together more than the log holds
				seq, _, err := callProc(ctx, c, 1)
				if err != nil {
					t.Error(err)
					return
				}
				c.Done(seq)
			}
		})
	}
	for before := -1; before < len(server.saw()) && ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		before = len(server.saw())
	}
	calls.shut.Store(nil)
	close(shut)
	wg.Wait()
	if n := len(server.saw()); n != 480 {
		t.Errorf("%d calls", n)
	}
}

// More calls than a part of the log has room for wait; a call that is given up while it
// waits was not sent.
func TestCallsWait(t *testing.T) {
	w, server := startStuck(t)
	mem, calls := sim(1<<16), &lazy{Sim: sim(replies.MinCalls - 20480)}
	c := createBoth(t, w, mem, calls)
	shut := make(chan struct{})
	calls.shut.Store(&shut)
	for sent := 0; ; sent++ {
		if sent == 1000 {
			t.Fatal("the log has room for everything")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		seq, _, err := callProc(ctx, c, 1)
		cancel()
		if err == nil {
			c.Done(seq)
			continue
		}
		if !errors.Is(err, context.DeadlineExceeded) || !notSent(err) {
			t.Error(err)
		}
		if n := len(server.saw()); n != sent || n == 0 {
			t.Errorf("%d calls were sent, %d of them answered", n, sent)
		}
		break
	}
	calls.shut.Store(nil)
	close(shut)
	if _, _, err := callProc(t.Context(), c, 1); err != nil {
		t.Error(err)
	}
}

// notSent reports whether err says that a call was not sent.
func notSent(err error) bool { return err != nil && strings.Contains(err.Error(), "call not sent") }

// A memory that fails ends calls with an error: none is sent without a note, none hangs.
func TestCallsFail(t *testing.T) {
	w, server := startStuck(t)
	mem := sim(1 << 16)
	calls, f := faulty(1 << 16)
	c := createBoth(t, w, mem, calls)
	if _, _, err := callProc(t.Context(), c, 1); err != nil {
		t.Fatal(err)
	}
	f.Fail(pmem.OpPersist, errors.New("medium"))
	before := len(server.saw())
	for range 3 {
		if _, _, err := callProc(t.Context(), c, 1); !notSent(err) {
			t.Error(err)
		}
	}
	if n := len(server.saw()) - before; n != 0 {
		t.Errorf("%d calls were sent", n)
	}
	_ = c.Close()
}

// Each life has a larger epoch, also when the log was never offered in it.
func TestEpochs(t *testing.T) {
	mem, calls := sim(1<<16), sim(1<<16)
	created(t, mem)
	created(t, calls)
	for last := uint32(0); last < 4; {
		c := openBoth(t, &world{rpc: "127.0.0.1:1"}, mem, calls)
		_ = c.Close()
		if c.Epoch() <= last {
			t.Fatalf("epoch %d after %d", c.Epoch(), last)
		}
		last = c.Epoch()
		mem, calls = pmemtest.OpenSim(mem.Bytes(), nil), pmemtest.OpenSim(calls.Bytes(), nil)
	}
}

// Only the calls that are chosen are noted.
func TestCallsChosen(t *testing.T) {
	w, server := startStuck(t)
	mem, calls := sim(1<<16), sim(1<<16)
	created(t, mem)
	created(t, calls)
	c := openChosen(t, w, mem, calls, func(_, vers, proc uint32) bool { return proc == 2 || vers == 2 })
	for _, proc := range []uint32{1, 2, 1} {
		if _, _, err := callProc(t.Context(), c, proc); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for vers := range uint32(3) { // none is answered
		wg.Go(func() {
			var reply rpc.Reply
			defer reply.Release()
			_ = c.Do(t.Context(), &rpc.Call{Prog: program, Vers: vers, Proc: 5}, &reply)
		})
		<-server.came
	}
	st, err := replies.Inspect(reader(pmemtest.OpenSim(mem.Told().Durable(), nil)), reader(pmemtest.OpenSim(calls.Told().Durable(), nil)))
	if err != nil || len(st.Unanswered) != 1 || st.Unanswered[0].Vers != 2 {
		t.Errorf("%+v, %v", st, err)
	}
	close(server.gate)
	wg.Wait()
	_ = c.Close()
	st, err = replies.Inspect(reader(mem), reader(calls))
	if err != nil || len(st.Replies) != 6 || len(st.Unanswered) != 0 {
		t.Fatal(st, err)
	}
}

// Logs that hold something else, and memory that is too small, are refused.
func TestCallsForeign(t *testing.T) {
	mem, small, other := sim(1<<16), sim(1<<14), sim(1<<16)
	for _, m := range []region.Memory{mem, small, other} {
		created(t, m)
	}
	l, _ := commitlog.Open(other)
	p := commitlog.NewProducer(nil)
	if err := l.Local(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Append(t.Context(), []byte("else")); err != nil {
		t.Fatal(err)
	}
	p.Close()
	_ = l.Close(t.Context())
	for _, test := range []struct {
		calls region.Memory
		want  error // nil: another one
	}{{small, nil}, {other, replies.ErrForeign}, {sim(1 << 16), commitlog.ErrMagic}} {
		_, err := replies.Open(&replies.Config{Memory: mem, Calls: test.calls, Redial: redial.Config{
			Dial: func(context.Context) (redial.Conn, error) { return nil, errors.New("none") },
		}})
		if test.want == nil && (err == nil || !strings.Contains(err.Error(), "want a log in at least")) || test.want != nil && !errors.Is(err, test.want) {
			t.Errorf("%v, want %v", err, test.want)
		}
	}
	if _, err := replies.Inspect(reader(mem), reader(other)); !errors.Is(err, replies.ErrForeign) {
		t.Error(err)
	}
}
