package card

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"golang.org/x/sys/unix"
)

// done counts completions.
type done struct {
	mu   sync.Mutex
	errs []error
}

func (d *done) Complete(err error) {
	d.mu.Lock()
	d.errs = append(d.errs, err)
	d.mu.Unlock()
}

func (d *done) all() []error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]error(nil), d.errs...)
}

type handler struct {
	mu   sync.Mutex
	msgs [][]byte
	err  error
}

func (h *handler) HandleRecv(_ *rdmap.Conn, m *verbs.Message) {
	h.mu.Lock()
	h.msgs = append(h.msgs, bytes.Clone(m.Data))
	h.mu.Unlock()
}

func (h *handler) HandleClose(_ *rdmap.Conn, err error) { h.err = err }

// up returns a responder's connection on f that has started, and is served.
func up(t *testing.T, f *fakeCard, cfg *Config, rc *rdmap.Config) (*rdmap.Conn, *Conn, *handler) {
	t.Helper()
	c := responder(t, f, cfg)
	h := new(handler)
	rc.Handler = h
	r := rdmap.Server(c, rc)
	if err := r.Handshake(context.Background()); err != nil {
		t.Fatal(err)
	}
	go func() { _ = r.Serve() }()
	return r, c, h
}

var here = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 20049}

func responder(t *testing.T, f *fakeCard, cfg *Config) *Conn {
	t.Helper()
	cfg, err := cfg.orDefault()
	if err != nil {
		t.Fatal(err)
	}
	c := newConn(cfg, f, here, here)
	c.request = &event{asked: 4, may: 4}
	f.onStart = func() { c.event(established) }
	return c
}

func small() *Config { return &Config{Memory: MinMemory} }

// payloads returns how many octets of payloads are registered.
func payloads(cfg *Config) int64 {
	cfg.mu.Lock()
	defer cfg.mu.Unlock()
	return cfg.payload.used
}

func over(t *testing.T, c *rdmap.Conn, f *fakeCard, cfg *Config) {
	t.Helper()
	<-c.Done()
	if n := f.live(); n != 0 {
		t.Errorf("%d registrations are left", n)
	}
	cfg.mu.Lock()
	defer cfg.mu.Unlock()
	if cfg.receive.used+cfg.copied.used+cfg.payload.used != 0 {
		t.Errorf("still accounted: %+v %+v %+v", cfg.receive, cfg.copied, cfg.payload)
	}
	if f.destroyed != 2 {
		t.Errorf("queue pair and endpoint destroyed %d times", f.destroyed)
	}
}

// Whatever ends a connection, each work request completes once, in order, and no memory is left.
func TestEnd(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(f *fakeCard, r *rdmap.Conn, c *Conn)
		want error // of those that have not succeeded
	}{
		{"abort", func(_ *fakeCard, r *rdmap.Conn, _ *Conn) { r.Abort(nil) }, verbs.ErrClosed},
		{"abort, and the card forgets receives", func(f *fakeCard, r *rdmap.Conn, _ *Conn) { f.forgets = true; r.Abort(nil) }, verbs.ErrClosed},
		{"close", func(_ *fakeCard, r *rdmap.Conn, _ *Conn) { _ = r.Close() }, verbs.ErrClosed},
		{"the peer's end", func(_ *fakeCard, _ *rdmap.Conn, c *Conn) { c.event(disconnected) }, io.EOF},
		{"the device is removed", func(_ *fakeCard, _ *rdmap.Conn, c *Conn) { c.event(removed) }, ErrRemoved},
		{"the peer refuses", func(f *fakeCard, _ *rdmap.Conn, _ *Conn) { f.complete(1, statusRemoteAccess) }, nil},
		{"no answer", func(f *fakeCard, _ *rdmap.Conn, _ *Conn) { f.complete(1, statusRetry) }, os.ErrDeadlineExceeded},
		{"flushed, and then the CM says why", func(f *fakeCard, _ *rdmap.Conn, c *Conn) { f.complete(1, statusFlushed); c.event(disconnected) }, io.EOF},
		{"flushed, and the CM says nothing", func(f *fakeCard, _ *rdmap.Conn, _ *Conn) { f.complete(1, statusFlushed) }, syscall.ECONNRESET},
		{"too long a Send", func(f *fakeCard, _ *rdmap.Conn, _ *Conn) { f.arrives(0, statusLength) }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, cfg := newFake(), small()
				r, c, h := up(t, f, cfg, new(rdmap.Config))
				var ds [12]done // more than the queue has room for
				for i := range ds {
					if err := r.Post([]verbs.WR{{Op: verbs.OpWrite, Body: make([]byte, 3000*i), STag: 1, Done: &ds[i]}}); err != nil {
						t.Fatal(err)
					}
				}
				if n := len(f.posted()); n != f.k.sends {
					t.Fatalf("%d posted", n)
				}
				f.complete(2, 0)
				synctest.Wait()
				tt.end(f, r, c)
				over(t, r, f, cfg)
				for i := range ds {
					errs := ds[i].all()
					if len(errs) != 1 || (errs[0] == nil) != (i < 2) || i >= 2 && !errors.Is(errs[0], r.Err()) {
						t.Errorf("work request %d: %v", i, errs)
					}
				}
				if err := r.Err(); tt.want != nil && !errors.Is(err, tt.want) || err != h.err {
					t.Errorf("ends with %v, HandleClose has %v", err, h.err)
				}
				if err := r.Post([]verbs.WR{{Op: verbs.OpSend}}); !errors.Is(err, r.Err()) {
					t.Errorf("Post after the end: %v", err)
				}
			})
		})
	}
}

// A card that takes a part of what is posted gives back that part alone.
func TestPostFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, cfg := newFake(), small()
		r, _, _ := up(t, f, cfg, new(rdmap.Config))
		f.bad = syscall.ENOMEM
		var ds [3]done
		_ = r.Post([]verbs.WR{{Op: verbs.OpSend, Done: &ds[0]}, {Op: verbs.OpSend, Done: &ds[1]}, {Op: verbs.OpSend, Done: &ds[2]}})
		over(t, r, f, cfg)
		for i := range ds {
			if errs := ds[i].all(); len(errs) != 1 || !errors.Is(errs[0], syscall.ENOMEM) {
				t.Errorf("work request %d: %v", i, errs)
			}
		}
	})
}

// A graceful end sends what was posted first.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, cfg := newFake(), small()
		r, _, _ := up(t, f, cfg, new(rdmap.Config))
		var ds [10]done
		for i := range ds {
			_ = r.Post([]verbs.WR{{Op: verbs.OpSend, Body: []byte("reply"), Done: &ds[i]}})
		}
		go func() { _ = r.Close() }()
		synctest.Wait()
		if f.stopped {
			t.Error("ended at once")
		}
		f.complete(8, 0)
		synctest.Wait()
		f.complete(2, 0)
		over(t, r, f, cfg)
		for i := range ds {
			if errs := ds[i].all(); len(errs) != 1 || errs[0] != nil {
				t.Errorf("work request %d: %v", i, errs)
			}
		}
	})
}

// What has come before the news of the end is delivered.
func TestLastMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, cfg := newFake(), small()
		r, c, h := up(t, f, cfg, new(rdmap.Config))
		f.mu.Lock()
		f.done = append(f.done, wc{id: f.recvs[0], len: 5}) // not polled yet
		f.recvs = f.recvs[1:]
		f.mu.Unlock()
		c.event(disconnected)
		over(t, r, f, cfg)
		if len(h.msgs) != 1 || len(h.msgs[0]) != 5 {
			t.Errorf("messages %q", h.msgs)
		}
	})
}

// An idle peer is asked for a sign of life, and given up if none comes. On iWARP that is a Read.
func TestKeepalive(t *testing.T) {
	for _, iwarp := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f, cfg := newFake(), small()
			f.k.iwarp = iwarp
			r, _, _ := up(t, f, cfg, new(rdmap.Config))
			begun := time.Now()
			for range 3 {
				<-f.out
				got := f.posted()
				if want := map[bool]uint32{false: opWrite, true: opRead}[iwarp]; len(got) != 1 || got[0].op != want || got[0].len[0] != 0 {
					t.Fatalf("posted %+v", got)
				}
				f.complete(1, 0)
			}
			if d := time.Since(begun); d != 3*keepaliveAfter {
				t.Errorf("three after %v", d)
			}
			<-f.out // and now nobody answers
			over(t, r, f, cfg)
			if d := time.Since(begun); !errors.Is(r.Err(), os.ErrDeadlineExceeded) || d > time.Minute+3*keepaliveAfter {
				t.Errorf("ends after %v with %v", d, r.Err())
			}
			if st := r.Stats(); st.SendsOut+st.WriteOctetsOut+st.ReadsOut != 0 || st.MessagesOut != (verbs.OpCounts{}) {
				t.Errorf("counted: %+v", st)
			}
		})
	}
}

// Nothing of the card is taken for a stranger.
func TestRefuse(t *testing.T) {
	for name, refuse := range map[string]func(*Conn){
		"Refuse": func(c *Conn) { c.Refuse(nil) },
		"Close":  func(c *Conn) { _ = c.Close() },
		"Abort":  func(c *Conn) { rdmap.Server(c, nil).Abort(nil) },
	} {
		f, cfg := newFake(), small()
		c := responder(t, f, cfg)
		refuse(c)
		<-c.Over()
		if !f.rejected || f.most != 0 || len(f.recvs) != 0 || f.destroyed != 1 {
			t.Errorf("%s: rejected %v, %d registrations, %d receives", name, f.rejected, f.most, len(f.recvs))
		}
	}
}

// A responder whose Accept fails tells the peer, and one without memory for its receives does not begin.
func TestStartFails(t *testing.T) {
	refusal := errors.New("no")
	for name, rc := range map[string]*rdmap.Config{
		"Accept":    {Startup: rdmap.Startup{Accept: func(*mpa.Request) ([]byte, error) { return nil, refusal }}},
		"no memory": {Receives: rdmap.Receives{Size: 1 << 20, Count: 3}},
	} {
		f, cfg := newFake(), small()
		r := rdmap.Server(responder(t, f, cfg), rc)
		err := r.Handshake(context.Background())
		if want := map[string]error{"Accept": refusal, "no memory": ErrMemory}[name]; !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
		over(t, r, f, cfg)
		if !f.rejected || f.accepted != nil {
			t.Errorf("%s: rejected %v", name, f.rejected)
		}
	}
}

// A peer that never answers the start-up does not keep it, nor does the user's Abort.
func TestStartEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, cfg := newFake(), small()
		c := responder(t, f, cfg)
		f.onStart = func() {}
		r := rdmap.Server(c, nil)
		if err := r.Handshake(context.Background()); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		over(t, r, f, cfg)

		f, cfg = newFake(), small()
		c = responder(t, f, cfg)
		f.onStart = func() { _ = c.Close() }
		r = rdmap.Server(c, nil)
		if err := r.Handshake(context.Background()); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		over(t, r, f, cfg)
	})
}

// Short payloads are copied, long ones are registered for as long as the card needs them, and those for which there is no
// room wait for each other. The sink of a Read has a name of its own on iWARP.
func TestPayloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, cfg := newFake(), small()
		r, _, _ := up(t, f, cfg, new(rdmap.Config))
		f2 := newFake()
		r2, _, _ := up(t, f2, cfg, new(rdmap.Config))
		base := f.live()
		for _, tt := range []struct{ n, registered int }{{100, 0}, {bounceLimit, 0}, {bounceLimit + 1, 1}, {100000, 1}} {
			body := bytes.Repeat([]byte{7}, tt.n)
			var d done
			_ = r.Post([]verbs.WR{{Op: verbs.OpWrite, Body: body, STag: 9, TO: 5, Done: &d}})
			got := f.posted()[0]
			if got.pieces != 1 || got.len[0] != uint32(tt.n) || got.rkey != 9 || got.raddr != 5 || (got.addr[0] == addrOf(body)) != (tt.registered == 1) {
				t.Errorf("%d octets: %+v", tt.n, got)
			}
			if n := payloads(cfg); (n > 0) != (tt.registered == 1) {
				t.Errorf("%d octets: %d registered", tt.n, n)
			}
			f.complete(1, 0)
			synctest.Wait()
			if n := payloads(cfg); n != 0 || len(d.all()) != 1 {
				t.Errorf("%d octets: %d still registered", tt.n, n)
			}
		}
		if f.live() > base+2 { // a chunk of each size of slot
			t.Errorf("%d registrations are left", f.live())
		}
		big := make([]byte, 3<<20) // of 4 MiB
		_ = r.Post([]verbs.WR{{Op: verbs.OpWrite, Body: big}})
		_ = r2.Post([]verbs.WR{{Op: verbs.OpWrite, Body: big}, {Op: verbs.OpSend, Body: []byte("done")}})
		if n := len(f2.posted()); n != 0 {
			t.Errorf("%d posted without memory, or not in order", n)
		}
		f.complete(1, 0)
		synctest.Wait()
		if n := len(f2.posted()); n != 2 {
			t.Errorf("%d posted when there is memory", n)
		}
		r.Abort(nil)
		r2.Abort(nil)
		<-r.Done()
		over(t, r2, f2, cfg)
	})
}

func TestReads(t *testing.T) {
	for _, iwarp := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f, cfg := newFake(), small()
			f.k.iwarp = iwarp
			r, _, _ := up(t, f, cfg, new(rdmap.Config))
			sink := make([]byte, 1000)
			reg, err := r.Register(sink, region.ReadSink)
			if err != nil {
				t.Fatal(err)
			}
			var ds [6]done
			for i := range ds {
				_ = r.Post([]verbs.WR{{Op: verbs.OpReadRequest, STag: 3, Sink: reg.STag(), SinkTO: 0, Len: 1000, Done: &ds[i], InvalidateSink: i == 5}})
			}
			got := f.posted()
			if len(got) != 4 { // what the CM has agreed on
				t.Fatalf("%d Reads in flight", len(got))
			}
			if own := got[0].addr[0] == addrOf(sink); own != iwarp {
				t.Errorf("iWARP %v: the sink is registered: %v", iwarp, own)
			}
			if !iwarp {
				copy(memAt(got[0].addr[0], 1000), "what the card has read")
			}
			f.complete(1, 0)
			synctest.Wait()
			if n := len(f.posted()); n != 4 {
				t.Errorf("%d Reads in flight after one is complete", n)
			}
			if !iwarp && !bytes.HasPrefix(sink, []byte("what the card")) {
				t.Errorf("sink has %q", sink[:30])
			}
			f.complete(4, 0)
			synctest.Wait()
			f.complete(1, 0)
			synctest.Wait()
			if reg.Valid() {
				t.Error("the sink was not invalidated")
			}
			r.Abort(nil)
			over(t, r, f, cfg)
		})
	}
}

// siw completes a Send before the Read that was posted before it: nothing is taken for the other.
func TestOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, cfg := newFake(), small()
		r, _, _ := up(t, f, cfg, new(rdmap.Config))
		sink := make([]byte, 20000)
		reg, err := r.Register(sink, region.ReadSink)
		if err != nil {
			t.Fatal(err)
		}
		var read, send done
		_ = r.Post([]verbs.WR{
			{Op: verbs.OpReadRequest, STag: 3, Sink: reg.STag(), Len: 20000, Done: &read},
			{Op: verbs.OpSend, Body: []byte("reply"), Done: &send},
		})
		f.mu.Lock()
		f.sends[0], f.sends[1] = f.sends[1], f.sends[0]
		f.mu.Unlock()
		f.complete(1, 0)
		synctest.Wait()
		if len(read.all())+len(send.all()) != 0 || payloads(cfg) == 0 {
			t.Errorf("complete before the Read: %v %v", read.all(), send.all())
		}
		f.complete(1, 0)
		synctest.Wait()
		if len(read.all()) != 1 || len(send.all()) != 1 {
			t.Errorf("complete: %v %v", read.all(), send.all())
		}
		f.mu.Lock()
		f.done = append(f.done, wc{id: 1}) // again
		f.mu.Unlock()
		f.interrupt()
		over(t, r, f, cfg)
		if !is[*verbs.LocalError](r.Err()) {
			t.Error(r.Err())
		}
	})
}

// What a client lends has a name until it is taken back, or until the connection is over.
func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, cfg := newFake(), small()
		r, _, _ := up(t, f, cfg, new(rdmap.Config))
		mem := make([]byte, 5000)
		one, err := r.Register(mem, region.RemoteRead)
		if err != nil || one.Base() != addrOf(mem) || one.STag() == 0 {
			t.Fatal(one, err)
		}
		two, err := r.Register(mem, region.RemoteWrite|region.RemoteInvalidate)
		if err != nil {
			t.Fatal(err)
		}
		n := f.live()
		if err := one.Invalidate(context.Background()); err != nil || f.live() != n-1 {
			t.Error(err, f.live(), n)
		}
		if _, err := r.Register(mem, region.Atomic); !errors.Is(err, region.ErrRights) {
			t.Error(err)
		}
		if _, err := r.Register(make([]byte, 5<<20), region.RemoteRead); !errors.Is(err, ErrMemory) {
			t.Error(err)
		}
		r.Abort(nil)
		over(t, r, f, cfg)
		if err := two.Invalidate(context.Background()); err != nil {
			t.Error(err)
		}
		if _, err := r.Register(mem, region.RemoteRead); err == nil {
			t.Error("a name after the end")
		}
	})
}

func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		status uint32
		recv   bool
		is     func(error) bool
	}{
		{statusLength, true, is[*verbs.ProtocolError]},
		{statusLength, false, is[*verbs.LocalError]},
		{statusRemoteAccess, false, is[*verbs.TerminateError]},
		{statusRemoteRequest, false, is[*verbs.TerminateError]},
		{statusLocalProtection, false, is[*verbs.LocalError]},
		{statusRetry, false, is[*verbs.ConnError]},
		{statusFlushed, true, is[*verbs.ConnError]},
		{999, true, is[*verbs.ConnError]},
	} {
		if err := completionError(tt.status, tt.recv); !tt.is(err) {
			t.Errorf("%d, receive %v: %T %v", tt.status, tt.recv, err, err)
		}
	}
	if err := cmError(syscall.ETIMEDOUT); !errors.Is(err, os.ErrDeadlineExceeded) || !errors.Is(err, syscall.ETIMEDOUT) {
		t.Error(err)
	}
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// Here, and on most machines, there is no RDMA device. On one with soft RoCE the address below is not its.
func TestNoDevice(t *testing.T) {
	for _, addr := range []string{"192.0.2.1:20049", "[2001:db8::1]:20049"} {
		_, err := Listen(addr, small())
		if !errors.Is(err, ErrNoRDMA) && !errors.Is(err, ErrNoDevice) {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if _, err = Dial(ctx, addr, small()); err == nil {
			t.Error("dialed")
		}
		var op *net.OpError
		if !errors.As(err, &op) || op.Net != "rdma" {
			t.Errorf("%T %v", err, err)
		}
	}
	if _, err := Listen("192.0.2.1:20049", &Config{Memory: 1}); !errors.Is(err, verbs.ErrConfig) {
		t.Error(err)
	}
}

// Whoever may not lock the memory is told so at the start, and what to do.
func TestMemlock(t *testing.T) {
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &was); err != nil {
		t.Skip(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 1 << 20, Max: was.Max}); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &was) })
	errs := make(chan error)
	go func() {
		runtime.LockOSThread() // and ends with its thread, which has lost a right
		h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		_ = unix.Capset(&h, &none[0])
		_, err := small().orDefault()
		errs <- err
	}()
	err := <-errs
	if !errors.Is(err, ErrMemory) || !bytes.Contains([]byte(err.Error()), []byte("LimitMEMLOCK=infinity")) {
		t.Error(err)
	}
}
