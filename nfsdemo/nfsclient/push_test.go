package nfsclient_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/internal/pushfile"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
)

func (b *badFiles) WriteGrant(g *server.Grant, p []byte, off uint64) (nfs3.WriteVerf, error) {
	b.mu.Lock()
	fail := b.fail
	b.mu.Unlock()
	if fail != nil {
		return nfs3.WriteVerf{}, fail
	}
	return b.Server.WriteGrant(g, p, off)
}

// Files of all sizes, from sources of all kinds, over rings that they fill several times.
func TestPushFrom(t *testing.T) {
	t.Parallel()
	w := newPushWorld(t, nil)
	var o owner
	c := w.client(&o, nil)
	other := mustDial(t, w.url, nil)
	for _, size := range []int{0, 1, 4095, 4096, 4097, 300_000} {
		for i, src := range []func([]byte) io.ReaderAt{
			func(b []byte) io.ReaderAt { return nfsclient.Memory(b) },
			func(b []byte) io.ReaderAt { return plain{b} },
			func(b []byte) io.ReaderAt { return nfsclient.NewWindow(bytes.NewReader(b), 20_000) },
		} {
			data := testData(size)
			n := made(t, c, fmt.Sprintf("f%d.%d", size, i))
			var told atomic.Int64
			known := int64(size)
			if i == 2 {
				known = -1
			}
			r, err := c.PushFrom(t.Context(), n, src(data), known, func(k int) { told.Add(int64(k)) })
			if err != nil || r.Size != int64(size) || r.Pushed != r.Size || r.Why != nil || told.Load() != r.Size {
				t.Fatalf("%d octets, source %d: %+v, %v, progress %d", size, i, r, err, told.Load())
			}
			if size > 0 && (r.Rung != push.Native || r.Level != commitlog.Persistent) {
				t.Errorf("%+v", r)
			}
			if !bytes.Equal(content(t, other, n), data) {
				t.Errorf("%d octets, source %d: content differs", size, i)
			}
		}
	}
	if st := c.Stats(); st.BackwardCalls != 0 {
		t.Errorf("%d recalls of files that were returned", st.BackwardCalls)
	}
}

// Servers and clients for which there is no push: everything is written all the same, and
// why is told.
func TestPushLadder(t *testing.T) {
	t.Parallel()
	w := newPushWorld(t, nil)
	without, _, _ := serve(t, false)
	var known owner
	if _, err := w.client(&known, nil).OpenPush(t.Context(), made(t, w.client(&known, nil), "f"), 0); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		url  string
		cfg  *nfsclient.Config
		rung push.Rung
		why  error
	}{
		{"native", w.url, known.config(nil), push.Native, nil},
		{"append", w.url, known.config(func(c *nfsclient.Config) { c.Push.Best = push.Append }), push.Append, nil},
		{"no push at the server", without, new(owner).config(nil), 0, push.ErrNoProgram},
		{"no push at the client", w.url, nil, 0, nfsclient.ErrNoPush},
		{"wrong secret", w.url, (&owner{secret: push.Secret{1}}).config(nil), 0, push.StatusRefused},
		{"no secret", w.url, new(owner).config(func(c *nfsclient.Config) { c.Push.Secret = push.Secret{} }), 0, push.ErrNoSecret},
		{"no backward direction", w.url, known.config(func(c *nfsclient.Config) {
			c.Transport = &transport.Config{RFC5666: &transport.RFC5666{}}
		}), 0, nfsclient.ErrNoPush},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := mustDial(t, test.url, test.cfg)
			n, data := made(t, c, "file"), testData(10_000)
			for range 2 { // the answer is the same the second time
				r, err := c.PushFrom(t.Context(), n, plain{data}, 10_000, nil)
				if err != nil || r.Size != 10_000 || r.Rung != test.rung {
					t.Fatalf("%+v, %v", r, err)
				}
				if !errors.Is(r.Why, test.why) || (test.why == nil) != (r.Pushed == 10_000) {
					t.Errorf("%+v, want because of %v", r, test.why)
				}
				if strings.HasPrefix(test.name, "no backward") && !strings.Contains(fmt.Sprint(r.Why), "no backward direction") {
					t.Errorf("because of %v", r.Why)
				}
				if test.why != nil && !errors.Is(r.Why, nfsclient.ErrNoPush) {
					t.Errorf("%v is not ErrNoPush", r.Why)
				}
			}
			if !bytes.Equal(content(t, c, n), data) {
				t.Error("content differs")
			}
		})
	}
}

// tripped is a source that does something in the middle.
type tripped struct {
	m    nfsclient.Memory
	at   int64
	once sync.Once
	do   func()
}

func (s *tripped) ReadAt(p []byte, off int64) (int, error) {
	if off >= s.at {
		s.once.Do(s.do)
	}
	return s.m.ReadAt(p, off)
}

// A plain client writes to the file in the middle: it is recalled at once, the rest is
// written by WRITE, and nothing of either is lost.
func TestPushRecalled(t *testing.T) {
	w := newPushWorld(t, nil)
	c, other := w.client(new(owner), nil), mustDial(t, w.url, nil)
	const size = 100_000
	data, n := testData(size), made(t, c, "f")
	src := &tripped{m: data, at: 50_000, do: func() {
		if _, _, err := other.WriteAt(t.Context(), n, []byte("end"), size, nfs3.FileSync); err != nil {
			t.Error(err)
		}
	}}
	var told atomic.Int64
	from := time.Now()
	r, err := c.PushFrom(t.Context(), n, src, size, func(k int) { told.Add(int64(k)) })
	if err != nil || r.Size != size || !errors.Is(r.Why, nfsclient.ErrRecalled) || r.Pushed == 0 || r.Pushed >= size || told.Load() != size {
		t.Fatalf("%+v, %v, progress %d", r, err, told.Load())
	}
	if d := time.Since(from); d > w.cfg.RecallTime/2 {
		t.Errorf("%v: it was fenced", d)
	}
	if got := content(t, other, n); !bytes.Equal(got, append(data, "end"...)) {
		t.Error("content differs")
	}
	if r, err := c.PushFrom(t.Context(), made(t, c, "g"), src, size, nil); err != nil || r.Pushed != size {
		t.Errorf("the next file: %+v, %v", r, err)
	}
}

// Somebody else opens the log in the middle: what was acknowledged stays, the rest is
// written by WRITE. The next file opens the log again.
func TestPushFenced(t *testing.T) {
	t.Parallel()
	w := newPushWorld(t, nil)
	var o owner
	c := w.client(&o, nil)
	const size = 100_000
	data, n := testData(size), made(t, c, "f")
	src := &tripped{m: data, at: 50_000, do: func() {
		thief := w.client(&o, nil)
		if _, err := thief.OpenPush(t.Context(), made(t, thief, "g"), 0); err != nil {
			t.Error(err)
		}
	}}
	r, err := c.PushFrom(t.Context(), n, src, size, nil)
	if err != nil || r.Size != size || !errors.Is(r.Why, push.StatusFenced) {
		t.Fatalf("%+v, %v", r, err)
	}
	if !bytes.Equal(content(t, c, n), data) {
		t.Error("content differs")
	}
	n = made(t, c, "h")
	if r, err = c.PushFrom(t.Context(), n, data, size, nil); err != nil || r.Pushed != size {
		t.Errorf("the next file: %+v, %v", r, err)
	}
}

// The server restarts in the middle.
func TestPushRestart(t *testing.T) {
	w := newPushWorld(t, nil)
	c := w.client(new(owner), nil)
	const size = 100_000
	data, n := testData(size), made(t, c, "f")
	src := &tripped{m: data, at: 50_000, do: func() { w.stop(); w.start() }}
	r, err := c.PushFrom(t.Context(), n, src, size, nil)
	if err != nil || r.Size != size || !errors.Is(r.Why, push.StatusFenced) {
		t.Fatalf("%+v, %v", r, err)
	}
	if !bytes.Equal(content(t, c, n), data) {
		t.Error("content differs")
	}
}

// All connections end again and again: all of it is pushed.
func TestPushCut(t *testing.T) {
	t.Parallel()
	w := newPushWorld(t, nil)
	var conns atomic.Int64
	c := w.client(new(owner), func(cfg *nfsclient.Config) {
		cfg.Tap = func(c net.Conn) net.Conn {
			weak := &weakConn{Conn: c}
			weak.left.Store(1 << 40)
			if n := conns.Add(1); n <= 12 {
				weak.left.Store(2000 + 300*n)
			}
			return weak
		}
	})
	other := mustDial(t, w.url, nil)
	const size = 200_000
	data := testData(size)
	for i := 0; conns.Load() <= 12 || i < 2; i++ {
		if i == 200 {
			t.Fatalf("%d connections", conns.Load())
		}
		n := made(t, c, fmt.Sprintf("f%d", i))
		r, err := c.PushFrom(t.Context(), n, data, size, nil)
		if err != nil || r.Size != size {
			t.Fatalf("%+v, %v", r, err)
		}
		if !bytes.Equal(content(t, other, n), data) {
			t.Error("content differs")
		}
	}
}

// What cannot be applied is reported, with the record and why, and is there when it can.
func TestPushApplyError(t *testing.T) {
	t.Parallel()
	w := newPushWorld(t, nil)
	c := w.client(new(owner), nil)
	data, n := testData(5000), made(t, c, "f")
	w.files.set(nfs3.ErrNoSpc)
	r, err := c.PushFrom(t.Context(), n, data, 5000, nil)
	ae, ok := errors.AsType[*nfsclient.ApplyError](err)
	if !ok || !errors.Is(err, nfs3.ErrNoSpc) || ae.State.Record != 1 || ae.State.Error != nfs3.ErrNoSpc || r.Pushed != 5000 {
		t.Fatalf("%+v, %v", r, err)
	}
	w.files.set(nil)
	var got []byte
	for until := time.Now().Add(10 * time.Second); !bytes.Equal(got, data); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("it was not applied")
		}
		if c.Refresh(t.Context(), n) == nil {
			got = content(t, c, n)
		}
	}
}

// A PushFile: writers beside one another, a recall while nothing is under way, and what is
// refused then.
func TestPushFile(t *testing.T) {
	t.Parallel()
	w := newPushWorld(t, nil)
	c, other := w.client(new(owner), nil), mustDial(t, w.url, nil)
	n := made(t, c, "f")
	f, err := c.OpenPush(t.Context(), n, 40_000)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.OpenPush(t.Context(), n, 0); !errors.Is(err, nfsclient.ErrNoPush) {
		t.Errorf("opened twice: %v", err)
	}
	data := testData(40_000)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			part := data[i*10_000:][:10_000]
			if k, level, err := f.WriteAt(t.Context(), part, int64(i)*10_000); k != len(part) || level != commitlog.Persistent || err != nil {
				t.Error(k, level, err)
			}
		})
	}
	wg.Wait()
	if !bytes.Equal(content(t, other, n), data) {
		t.Error("content differs before Close")
	}
	if _, _, err := other.WriteAt(t.Context(), n, []byte("x"), 0, nfs3.FileSync); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.WriteAt(t.Context(), data, 0); !errors.Is(err, nfsclient.ErrRecalled) {
		t.Error(err)
	}
	if err := f.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if f, err = c.OpenPush(t.Context(), n, 0); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.WriteAt(t.Context(), []byte("y"), 1); err != nil {
		t.Error(err)
	}
	if err := f.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if got := content(t, other, n); string(got[:2]) != "xy" {
		t.Errorf("%q", got[:2])
	}
}

// Two clients want the same file by push: the second one gets it when the first has
// nothing under way.
func TestPushTwo(t *testing.T) {
	t.Parallel()
	w := newPushWorld(t, nil)
	a := w.client(new(owner), nil)
	b := w.client(new(owner), func(c *nfsclient.Config) { c.Push.Log = "b" })
	n := made(t, a, "f")
	f, err := a.OpenPush(t.Context(), n, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.WriteAt(t.Context(), []byte("first"), 0); err != nil {
		t.Fatal(err)
	}
	g, err := b.OpenPush(t.Context(), n, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := g.WriteAt(t.Context(), []byte("S"), 0); err != nil {
		t.Error(err)
	}
	if err := errors.Join(g.Close(t.Context()), f.Close(t.Context())); err != nil {
		t.Error(err)
	}
	if got := content(t, a, n); string(got) != "Sirst" {
		t.Errorf("%q", got)
	}
}

// Recalls that name another session or lease, and calls that are none, are refused.
func TestPushRecallOthers(t *testing.T) {
	w := newPushWorld(t, nil)
	c := w.client(new(owner), nil)
	f, err := c.OpenPush(t.Context(), made(t, c, "f"), 0)
	if err != nil {
		t.Fatal(err)
	}
	id := pushfile.Session(f.SessionID())
	for _, a := range []pushfile.RecallArgs{
		{Session: id, Lease: f.Lease() + 1}, {Session: pushfile.Session{1}, Lease: f.Lease()}, {Lease: f.Lease()},
	} {
		if st := c.Recall(&a); st != pushfile.StatusUnknownLease {
			t.Errorf("%+v: %v", a, st)
		}
	}
	if _, _, err := f.WriteAt(t.Context(), []byte("x"), 0); err != nil {
		t.Error(err)
	}
	if st := c.Recall(&pushfile.RecallArgs{Session: id, Lease: f.Lease()}); st != pushfile.StatusOK {
		t.Error(st)
	}
}

// A copy that is interrupted ends, and does not write by WRITE.
func TestPushCancelled(t *testing.T) {
	w := newPushWorld(t, nil)
	c := w.client(new(owner), nil)
	ctx, cancel := context.WithCancel(t.Context())
	src := &tripped{m: testData(100_000), at: 50_000, do: cancel}
	r, err := c.PushFrom(ctx, made(t, c, "f"), src, 100_000, nil)
	if !errors.Is(err, context.Canceled) || r.Why != nil {
		t.Errorf("%+v, %v", r, err)
	}
	failing := &tripped{m: testData(100_000), at: 50_000, do: func() {}}
	r, err = c.PushFrom(t.Context(), made(t, c, "g"), brokenAt{failing, 50_000}, 100_000, nil)
	if !errors.Is(err, errTest) || r.Why != nil {
		t.Errorf("a source that cannot be read: %+v, %v", r, err)
	}
}

// brokenAt is a source that cannot be read from an offset on.
type brokenAt struct {
	io.ReaderAt
	at int64
}

func (b brokenAt) ReadAt(p []byte, off int64) (int, error) {
	if off >= b.at {
		return 0, errTest
	}
	return b.ReaderAt.ReadAt(p, off)
}

// After connections were lost the server knows where to call: a recall is answered at once.
func TestPushRecallAfterCut(t *testing.T) {
	t.Parallel()
	w := newPushWorld(t, nil)
	var mu sync.Mutex
	var conns []net.Conn
	c := w.client(new(owner), func(cfg *nfsclient.Config) {
		cfg.Tap = func(c net.Conn) net.Conn {
			mu.Lock()
			defer mu.Unlock()
			conns = append(conns, c)
			return c
		}
	})
	other, n := mustDial(t, w.url, nil), made(t, c, "f")
	f, err := c.OpenPush(t.Context(), n, 0)
	if err != nil {
		t.Fatal(err)
	}
	id := f.SessionID()
	mu.Lock()
	for _, nc := range conns {
		nc.Close()
	}
	mu.Unlock()
	for f.SessionID() == id {
		if _, _, err := f.WriteAt(t.Context(), []byte("a"), 0); err != nil {
			t.Fatal(err)
		}
	}
	from := time.Now()
	if _, _, err := other.WriteAt(t.Context(), n, []byte("b"), 1, nfs3.FileSync); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(from); d > w.cfg.RecallTime/2 {
		t.Errorf("%v: it was fenced", d)
	}
	if got := content(t, other, n); string(got) != "ab" {
		t.Errorf("%q", got)
	}
}
