package once_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/internal/pmemsim"
	"github.com/stag-rdma/stag/internal/pmemtest"
	"github.com/stag-rdma/stag/nfsdemo/internal/once"
	"github.com/stag-rdma/stag/nfsdemo/internal/once/internal/ledger"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

func newSim(t testing.TB, o *pmemsim.Options) *pmemsim.Sim {
	t.Helper()
	return pmemsim.Open(newImage(t, simSize), o)
}

// TestAgain: a repeated call is answered as before, and not executed; another one
// with the same XID is executed.
func TestAgain(t *testing.T) {
	s := newShelf()
	h, j := start(t, s, newSim(t, nil), nil)
	for range 2 {
		if got := string(send(h, 1, procMake, "a")); got != results(0, 1) {
			t.Errorf("%x", got)
		}
	}
	if got := string(send(h, 1, procMake, "b")); got != results(0, 2) {
		t.Errorf("the same XID for something else: %x", got)
	}
	if got := string(send(h, 2, procMake, "a")); got != results(1, 1) {
		t.Errorf("another XID: %x", got)
	}
	if got := string(send(h, 3, procLook, "a")); got != results(0, 1) {
		t.Errorf("a call that changes nothing: %x", got)
	}
	if got := string(send(h, 4, procMake, "unknowable")); got != results(7, 0) {
		t.Errorf("a call that cannot be described: %x", got)
	}
	if s := j.Stats(); s.Records != 6 || s.Replayed != 1 || s.Replies != 3 || s.Running != 0 {
		t.Errorf("%+v", s)
	}
}

// TestSecurityFlavour: the reply to a call with RPCSEC_GSS fits one transmission only.
func TestSecurityFlavour(t *testing.T) {
	s := newShelf()
	h, j := start(t, s, newSim(t, nil), nil)
	req := &rpc.Request{CallHeader: xdr.CallHeader{XID: 1, Proc: procMake}, Args: shelfArgs("a")}
	req.Cred.Flavor = xdr.RPCSECGSS
	h.ServeRPC(context.Background(), req, new(rpc.Response))
	if n := j.Stats().Records; n != 0 || s.effects[1] != 1 {
		t.Errorf("%d records", n)
	}
}

// TestClients: many clients behind one address, with the same XIDs, get their own replies
// (ADVERSARY 27).
func TestClients(t *testing.T) {
	s := newShelf()
	h, j := start(t, s, newSim(t, nil), nil)
	for round := range 2 {
		for i := range uint32(8) {
			cred := xdr.SysCred{MachineName: "m" + string(rune('0'+i/4)), UID: i / 2 % 2, GIDs: []uint32{i % 2}}
			msg := xdr.AppendCall(nil, &xdr.CallHeader{XID: 1, RPCVers: 2, Prog: 0x20000001, Vers: 1, Proc: procMake, Cred: cred.Auth()})
			out, _ := rpc.ServeMessage(context.Background(), h, from, append(msg, shelfArgs("a")...), nil)
			want := results(1, 1)
			if i == 0 {
				want = results(0, 1)
			}
			if got := string(out[replyHeader:]); got != want {
				t.Errorf("round %d, client %d: %x, want %x", round, i, got, want)
			}
		}
	}
	cred := xdr.SysCred{MachineName: "m0", GIDs: []uint32{0}}
	msg := xdr.AppendCall(nil, &xdr.CallHeader{XID: 1, RPCVers: 2, Prog: 0x20000001, Vers: 1, Proc: procMake, Cred: cred.Auth()})
	elsewhere := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 8), Port: 1023}
	out, _ := rpc.ServeMessage(context.Background(), h, elsewhere, append(msg, shelfArgs("a")...), nil)
	if got := string(out[replyHeader:]); got != results(1, 1) {
		t.Errorf("another address: %x", got)
	}
	if s := j.Stats(); s.Replayed != 8 || s.Replies != 9 {
		t.Errorf("%+v", s)
	}
}

// TestMeanwhile: a repeated call while it runs waits for its reply; calls about the
// same name wait for their turn, and others do not.
func TestMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		gate := make(chan struct{})
		s.hook = func(req *rpc.Request) {
			if req.XID == 1 {
				<-gate
			}
		}
		h, j := start(t, s, newSim(t, nil), nil)
		var mu sync.Mutex
		done := make(map[string]string)
		var wg sync.WaitGroup
		for what, f := range map[string]func() []byte{
			"first":  func() []byte { return send(h, 1, procMake, "a") },
			"again":  func() []byte { return send(h, 1, procMake, "a") },
			"same":   func() []byte { return send(h, 2, procDrop, "a") },
			"others": func() []byte { return send(h, 3, procMake, "b") },
		} {
			wg.Go(func() {
				if what == "again" || what == "same" {
					time.Sleep(time.Second) // of the bubble
				}
				got := string(f())
				mu.Lock()
				done[what] = got
				mu.Unlock()
			})
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		mu.Lock()
		if len(done) != 1 || done["others"] != results(0, 1) {
			t.Errorf("not waiting: %x", done)
		}
		mu.Unlock()
		close(gate)
		wg.Wait()
		if done["first"] != results(0, 2) || done["again"] != done["first"] || done["same"] != results(0, 2) {
			t.Errorf("%x", done)
		}
		if st := j.Stats(); st.Joined != 1 || s.effects[1] != 1 {
			t.Errorf("%+v, %d times", st, s.effects[1])
		}
		_ = j.Close(context.Background())
	})
}

// TestExpiry: replies are kept for their time, and a call that comes later is a new one.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		h, j := start(t, s, newSim(t, nil), &once.Options{Time: time.Minute})
		send(h, 1, procMake, "a")
		time.Sleep(59 * time.Second)
		if got := string(send(h, 1, procMake, "a")); got != results(0, 1) {
			t.Errorf("in time: %x", got)
		}
		time.Sleep(time.Second)
		if got := string(send(h, 1, procMake, "a")); got != results(1, 1) {
			t.Errorf("too late: %x", got)
		}
		if st := j.Stats(); st.Expired != 1 || st.Replies != 1 {
			t.Errorf("%+v", st)
		}
		_ = j.Close(context.Background())
	})
}

// TestFailure: after the first error of the memory every call is refused and none is
// executed, although the next flush would succeed (ADVERSARY 22); a call that does not
// need the journal continues.
func TestFailure(t *testing.T) {
	for what, after := range map[string]int{"intent": 0, "reply": 1} {
		t.Run(what, func(t *testing.T) {
			f := pmemtest.NewFaults()
			s := newShelf()
			h, j := start(t, s, newSim(t, &pmemsim.Options{Hooks: f.Hooks()}), nil)
			f.FailAfter(pmemtest.Persist, after, syscall.EIO)
			if got := string(send(h, 1, procMake, "a")); got != results(90, 0) {
				t.Errorf("acknowledged: %x", got)
			}
			executed := s.effects[1]
			if executed != after {
				t.Errorf("executed %d times", executed)
			}
			for xid := range uint32(3) {
				if got := string(send(h, xid, procMake, "a")); got != results(90, 0) {
					t.Errorf("later: %x", got)
				}
			}
			if s.effects[1] != executed || s.effects[2] != 0 {
				t.Error("executed after the error")
			}
			if got := send(h, 9, procLook, "b"); string(got) != results(2, 0) {
				t.Errorf("a call that changes nothing: %x", got)
			}
			if st := j.Stats(); !errors.Is(st.Err, syscall.EIO) || st.Refused != 4 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// TestPanic: nobody knows how far a call came whose service panicked: it never runs again.
func TestPanic(t *testing.T) {
	s := newShelf()
	s.hook = func(*rpc.Request) { panic("half way") }
	sim := newSim(t, nil)
	h, j := start(t, s, sim, nil)
	send(h, 1, procMake, "a") // SYSTEM_ERR, by the transport
	s.hook = nil
	if got := string(send(h, 1, procMake, "a")); got != results(91, 0) {
		t.Errorf("again: %x", got)
	}
	if got := string(send(h, 2, procMake, "a")); got != results(0, 1) {
		t.Errorf("the name is not free: %x", got)
	}
	if err := j.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	h, _ = start(t, s, pmemsim.Open(sim.Told().Durable(), nil), nil)
	if got := string(send(h, 1, procMake, "a")); got != results(91, 0) {
		t.Errorf("after a restart: %x", got)
	}
}

// odd is a Service that answers and settles oddly.
type odd struct {
	*shelf
	reply   func(resp *rpc.Response)
	outcome once.Outcome
	err     error
}

func (s *odd) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	s.shelf.ServeRPC(ctx, req, resp)
	s.reply(resp)
}

func (s *odd) Settle(_ context.Context, _ *once.Intent, results []byte) ([]byte, once.Outcome, error) {
	return results, s.outcome, s.err
}

// TestMeanwhileNothing: those who wait for a call that turns out to have executed nothing continue,
// one after the other, as if it had not come.
func TestMeanwhileNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &odd{shelf: newShelf()}
		runs := 0 // one at a time: they have one name
		s.reply = func(resp *rpc.Response) {
			time.Sleep(time.Second) // of the bubble
			if runs++; runs == 1 {
				resp.Stat, resp.Results = xdr.GarbageArgs, nil
			}
		}
		h, j := start(t, s, newSim(t, nil), nil)
		var wg sync.WaitGroup
		var got [4]string
		for i := range 4 {
			wg.Go(func() {
				got[i] = string(send(h, 1, procMake, "a"))
			})
		}
		wg.Wait()
		slices.Sort(got[:])
		if want := [4]string{"", results(1, 1), results(1, 1), results(1, 1)}; got != want {
			t.Errorf("%x, want %x", got, want)
		}
		if st := j.Stats(); runs != 2 || st.Joined != 3 || st.Replayed != 2 {
			t.Errorf("%d times, %+v", runs, st)
		}
		_ = j.Close(context.Background())
	})
}

// forgetful is watched memory that is not persistent.
type forgetful struct{ *pmemsim.Sim }

func (forgetful) Persist(int, int) error             { return region.ErrNotPersistent }
func (forgetful) PersistRanges([]region.Range) error { return region.ErrNotPersistent }

// TestNotPersistent: nothing is executed by a journal that would forget it.
func TestNotPersistent(t *testing.T) {
	s := newShelf()
	j, err := once.Open(forgetful{newSim(t, nil)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := once.New(context.Background(), j, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(send(h, 1, procMake, "a")); got != results(90, 0) || s.effects[1] != 0 || !errors.Is(j.Err(), once.ErrNotPersistent) {
		t.Errorf("%x, executed %d times, %v", got, s.effects[1], j.Err())
	}
	if err := j.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestOddReplies: a failure is not recorded, because nothing was executed; a reply that is too
// long to be recorded must not run again all the same.
func TestOddReplies(t *testing.T) {
	s := &odd{shelf: newShelf()}
	h, j := start(t, s, newSim(t, nil), nil)
	s.reply = func(resp *rpc.Response) { resp.Stat, resp.Results = xdr.GarbageArgs, nil }
	send(h, 1, procLook+4, "a")
	if st := j.Stats(); st.Replies != 0 || st.Records != 2 {
		t.Errorf("not a success: %+v", st)
	}
	s.reply = func(resp *rpc.Response) { resp.AppendItem([]byte("more than results")) }
	for range 2 {
		send(h, 5, procLook+4, "a")
	}
	if st := j.Stats(); st.Replies != 0 || st.Replayed != 0 || st.Records != 6 {
		t.Errorf("results that the record cannot hold: %+v", st)
	}
	s.reply = func(resp *rpc.Response) { resp.Results = make([]byte, maxResults+4) }
	for range 2 {
		if got := string(send(h, 2, procMake, "a")); got != results(91, 0) {
			t.Errorf("too long: %x", got)
		}
	}
	s.reply = func(*rpc.Response) {}
	long := string(make([]byte, maxArgs))
	if got := string(send(h, 3, procMake, long[:90])); got != results(0, 2) {
		t.Errorf("%x", got)
	}
	msg := append(xdr.AppendCall(nil, &xdr.CallHeader{XID: 4, RPCVers: 2, Proc: procMake}), shelfArgs("c")...)
	out, _ := rpc.ServeMessage(context.Background(), h, from, append(msg, long...), nil)
	if got := string(out[replyHeader:]); got != results(90, 0) || s.effects[4] != 0 {
		t.Errorf("a call too long for a record: %x, executed %d times", got, s.effects[4])
	}
}

// TestSettlement: what Settle says is recorded before New returns, and holds in the next
// life too; its error ends the start, and the next one asks again.
func TestSettlement(t *testing.T) {
	// The server ends after an intent.
	sim := newSim(t, nil)
	s := &odd{shelf: newShelf(), reply: func(*rpc.Response) {}}
	var image []byte
	s.hook = func(*rpc.Request) { image = sim.Told().Durable() }
	h, _ := start(t, s, sim, nil)
	send(h, 1, procMake, "a")
	s.hook = nil

	again := func(o once.Outcome, err error) ([]byte, error) {
		s.outcome, s.err = o, err
		sim := pmemsim.Open(image, nil)
		j, e := once.Open(sim, nil)
		if e != nil {
			t.Fatal(e)
		}
		defer j.Close(context.Background()) //nolint:errcheck // nobody touches the memory
		_, err = once.New(context.Background(), j, s, nil)
		return sim.Told().Durable(), err
	}
	failed := errors.New("no such disk")
	if _, err := again(once.Done, failed); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
	for o, want := range map[once.Outcome]string{once.Unknown: results(91, 0), once.NotDone: results(1, 1), once.Done: ""} {
		recorded, err := again(o, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.err = failed // nothing is left to be settled
		h, j := start(t, s, pmemsim.Open(recorded, nil), nil)
		if got := string(send(h, 1, procMake, "a")); got != want {
			t.Errorf("%v: %x", o, got)
		}
		if st := j.Stats(); st.SettledDone+st.SettledNotDone+st.SettledUnknown != 0 {
			t.Errorf("%v: settled again: %+v", o, st)
		}
	}
	if once.NotDone.String()+once.Done.String()+once.Unknown.String() != "not donedoneunknown" {
		t.Error("names")
	}
}

// TestFull: when there is no room for the replies of more calls, further ones wait, and are
// executed when there is; callers that give up are refused.
func TestFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		gate := make(chan struct{})
		s.hook = func(*rpc.Request) { <-gate }
		h, j := start(t, s, newSim(t, nil), nil)
		var wg sync.WaitGroup
		const n = 100
		for i := range uint32(n) {
			wg.Go(func() { send(h, i, procMake, string(rune('a'+i))) })
		}
		synctest.Wait()
		running := j.Stats().Running
		if running == 0 || running > 40 {
			t.Errorf("%d calls run in a ring of 64 KiB", running)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		req := &rpc.Request{CallHeader: xdr.CallHeader{XID: n, Proc: procMake}, Args: shelfArgs("late")}
		resp := new(rpc.Response)
		h.ServeRPC(ctx, req, resp)
		if string(resp.Results) != results(90, 0) {
			t.Errorf("%x", resp.Results)
		}
		close(gate)
		wg.Wait()
		for i := range uint32(n) {
			if s.effects[i] != 1 {
				t.Errorf("call %d: executed %d times", i, s.effects[i])
			}
		}
		_ = j.Close(context.Background())
	})
}

// TestLongLife: a ring that goes round many times holds the last replies, also those of a
// client that is silent while another floods, and a call that runs all the time.
func TestLongLife(t *testing.T) {
	s := newShelf()
	gate := make(chan struct{})
	entered := make(chan struct{})
	s.hook = func(req *rpc.Request) {
		if req.XID == 2 {
			close(entered)
			<-gate
		}
	}
	sim := newSim(t, nil)
	h, j := start(t, s, sim, &once.Options{Entries: 64})
	quiet := send(h, 1, procMake, "quiet")
	slow := make(chan []byte)
	go func() { slow <- send(h, 2, procMake, "slow") }()
	<-entered
	cred := xdr.SysCred{MachineName: "flood"}
	far := func(xid uint32) {
		msg := xdr.AppendCall(nil, &xdr.CallHeader{XID: xid, RPCVers: 2, Proc: procMake + xid%2, Cred: cred.Auth()})
		rpc.ServeMessage(context.Background(), h, nil, append(msg, shelfArgs("x")...), nil)
	}
	for xid := uint32(100); xid < 2100; xid++ {
		far(xid)
	}
	if got := send(h, 1, procMake, "quiet"); string(got) != string(quiet) {
		t.Errorf("the reply of the silent client: %x", got)
	}
	close(gate)
	if got := string(<-slow); got[:4] != results(0, 0)[:4] {
		t.Errorf("the slow call: %x", got)
	}
	if st := j.Stats(); st.Sweeps < 5 || st.Copied == 0 || st.Octets > st.Capacity || st.Replies > 10 {
		t.Errorf("%+v", st)
	}
	if err := j.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	h, _ = start(t, s, pmemsim.Open(sim.Told().Durable(), nil), &once.Options{Entries: 64})
	if got := send(h, 1, procMake, "quiet"); string(got) != string(quiet) || s.effects[1] != 1 || s.effects[2] != 1 {
		t.Errorf("after a restart: %x", got)
	}
}

// TestGroups: calls that come while a flush runs share the next one.
func TestGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := pmemtest.NewFaults()
		s := newShelf()
		h, j := start(t, s, newSim(t, &pmemsim.Options{Hooks: f.Hooks()}), nil)
		entered, release := f.Hang(pmemtest.Persist)
		before := f.Count(pmemtest.Persist)
		var wg sync.WaitGroup
		const n = 24
		for i := range uint32(n) {
			wg.Go(func() { send(h, i, procMake, string(rune('a'+i))) })
		}
		<-entered
		synctest.Wait() // all others have begun to append, and wait
		if k := j.Stats().Records; k != n {
			t.Errorf("%d records of %d calls", k, n)
		}
		release()
		wg.Wait()
		if k := f.Count(pmemtest.Persist) - before; k > n+n/2 { // each reply has its own at worst
			t.Errorf("%d flushes for the intents and replies of %d calls", k, n)
		}
	})
}

// TestIdempotentCalls cost nothing: no record, no allocation.
func TestIdempotentCalls(t *testing.T) {
	s := &still{}
	h, j := start(t, s, newSim(t, nil), nil)
	req := &rpc.Request{CallHeader: xdr.CallHeader{XID: 1}, RemoteAddr: from}
	resp := new(rpc.Response)
	if n := testing.AllocsPerRun(100, func() { h.ServeRPC(context.Background(), req, resp) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if j.Stats().Records != 0 || s.n == 0 {
		t.Error("recorded, or not served")
	}
	if h.MayBlock(0, 0, procLook) || h.NonIdempotent(0, 0, 1) || h.Lazy(0, 0, 1) {
		t.Error("a service without these methods")
	}
	h, _ = start(t, newShelf(), newSim(t, nil), nil)
	if !h.MayBlock(0, 0, procMake) || h.MayBlock(0, 0, procLook) || !h.NonIdempotent(0, 0, procMake) {
		t.Error("a call that must not run twice waits for a flush")
	}
}

// still is a Service whose calls change nothing.
type still struct {
	*shelf
	n int
}

func (*still) Names(*rpc.Request) []string { return nil }

func (s *still) ServeRPC(context.Context, *rpc.Request, *rpc.Response) { s.n++ }

func (*still) NonIdempotent(_, _, _ uint32) bool { return false }

// TestOpenErrors: memory that is not a journal is refused with a reason, and not changed.
func TestOpenErrors(t *testing.T) {
	if _, err := once.Open(make(region.Bytes, simSize), nil); !errors.Is(err, once.ErrNotPersistent) {
		t.Errorf("plain memory: %v", err)
	}
	if _, err := once.Open(pmemsim.New(simSize, nil), nil); !errors.Is(err, commitlog.ErrMagic) {
		t.Errorf("zeros: %v", err)
	}
	sim := newSim(t, nil)
	log, err := commitlog.Open(sim)
	if err != nil {
		t.Fatal(err)
	}
	p := commitlog.NewProducer(nil)
	if err := log.Local(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Append(t.Context(), []byte("of another program")); err != nil {
		t.Fatal(err)
	}
	p.Close()
	if err := log.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := once.Open(sim, nil); !errors.Is(err, once.ErrJournal) || !errors.Is(err, ledger.ErrRecord) {
		t.Errorf("another log: %v", err)
	}
	if log, err = commitlog.Open(sim); err != nil { // makes the tail durable
		t.Fatal(err)
	}
	if err := log.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	damaged := sim.Told().Durable()
	damaged[20<<10+28] ^= 1
	if _, err := once.Open(pmemsim.Open(damaged, nil), nil); !errors.Is(err, once.ErrJournal) {
		t.Errorf("damaged: %v", err)
	}
}

// TestOpenDir: a journal is made whole or not at all, and has one server.
func TestOpenDir(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "journal.new"), []byte("left by a crash"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := once.OpenDir(dir, &once.Options{Capacity: 1 << 10}); err == nil {
		t.Error("a ring of 1 KiB is taken")
	}
	o := &once.Options{Capacity: minCapacity}
	j, err := once.OpenDir(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := once.OpenDir(dir, o); !errors.Is(err, pmem.ErrLocked) {
		t.Errorf("opened twice: %v", err)
	}
	if err := errors.Join(j.Close(t.Context()), j.Close(t.Context())); err != nil {
		t.Errorf("closing: %v", err)
	}
	if j, err = once.OpenDir(dir, nil); err != nil || j.Stats().Capacity != minCapacity {
		t.Fatalf("opened again: %v", err)
	}
	if err := j.Close(t.Context()); err != nil || !errors.Is(j.Err(), once.ErrClosed) {
		t.Errorf("%v, %v", err, j.Err())
	}
	if _, err := once.OpenDir(filepath.Join(dir, "none"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such directory: %v", err)
	}
}
