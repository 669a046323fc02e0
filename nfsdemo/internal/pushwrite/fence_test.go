package pushwrite_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/internal/pushfile"
	"github.com/stag-rdma/stag/nfsdemo/internal/pushwrite"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport/push"
)

// later answers a recall by promising a RETURN, which never comes.
func later(*pushfile.RecallArgs) pushfile.Status { return pushfile.StatusBusy }

// TestFence: a client that does not return a lease is fenced, and only after the time it has; what
// it had acknowledged is kept, what it appends afterwards fails, its instance does not come
// back; a new one may.
func TestFence(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *pushwrite.Config) { c.RecallTime = 100 * time.Millisecond })
	p, c := w.plain(0), w.pusher("log", 0)
	c.answers(later)
	h, other := p.create("f", 0o644), p.create("g", 0o644)
	l, m := c.lease(h), c.lease(other)
	c.wrote(l, 0, "acknowledged")
	c.wrote(m, 0, "this too")
	began := time.Now()
	if st := p.write(h, 0, "A"); st != nfs3.OK {
		t.Fatal(st)
	}
	if d := time.Since(began); d < w.cfg.RecallTime {
		t.Error("fenced after", d)
	}
	p.has(h, "Acknowledged")
	p.has(other, "this too")
	if err := c.write(l, 0, "late"); !errors.Is(err, push.StatusFenced) {
		t.Error("append of a fenced client:", err)
	}
	if st := w.pw.Stats(); st.Fences != 1 || !w.pw.Idle() {
		t.Errorf("%+v", st)
	}
	c.dial(w)
	c.wrote(c.lease(h), 0, "B")
	p.has(h, "Bcknowledged")
}

// TestReturnLate: a client that says RETURN in time is not fenced.
func TestReturnLate(t *testing.T) {
	w := newWorld(t, func(c *pushwrite.Config) { c.RecallTime = time.Minute })
	p, c := w.plain(0), w.pusher("log", 0)
	asked := make(chan uint64, 1)
	c.answers(func(a *pushfile.RecallArgs) pushfile.Status { asked <- a.Lease; return pushfile.StatusBusy })
	h := p.create("f", 0o644)
	l := c.lease(h)
	returned, written := make(chan bool), make(chan bool)
	go func() {
		defer close(returned)
		select {
		case id := <-asked:
			c.wrote(id, 0, "last words")
			c.giveBack(id)
		case <-written:
			t.Error("the lease was not recalled")
		}
	}()
	defer func() { <-returned }() // the write is answered before RETURN is
	st := p.write(h, 0, "L")
	close(written)
	if st != nfs3.OK {
		t.Fatal(st)
	}
	p.has(h, "Last words")
	if w.pw.Stats().Fences != 0 {
		t.Error("fenced although it had returned lease", l)
	}
}

// TestUnknownRecall: a recall that overtakes the answer to OPEN is repeated.
func TestUnknownRecall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	p, c := w.plain(0), w.pusher("log", 0)
	n := 0
	c.answers(func(*pushfile.RecallArgs) pushfile.Status {
		if n++; n < 3 {
			return pushfile.StatusUnknownLease
		}
		return pushfile.StatusOK
	})
	h := p.create("f", 0o644)
	c.lease(h)
	if st := p.truncate(h, 0); st != nfs3.OK || n != 3 || w.pw.Stats().Fences != 0 {
		t.Errorf("%v, asked %d times, %+v", st, n, w.pw.Stats())
	}
}

// TestSecondWriter: an OPEN by another log is told BUSY, recalls, and gets the lease then.
func TestSecondWriter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	p, a, b := w.plain(0), w.pusher("a", 0), w.pusher("b", 0)
	h := p.create("f", 0o644)
	a.wrote(a.lease(h), 0, "aaaa")
	if st := b.open(h, 0).Status; st != pushfile.StatusBusy {
		t.Fatal(st)
	}
	var l uint64
	until(t, "the second log has a lease", func() bool {
		r := b.open(h, 0)
		l = r.Lease
		return r.Status == pushfile.StatusOK
	})
	b.wrote(l, 2, "bb")
	p.has(h, "aabb")
}

// TestClosed: a client that closes its log keeps nobody waiting.
func TestClosed(t *testing.T) {
	w := newWorld(t, func(c *pushwrite.Config) { c.RecallTime = time.Hour })
	p, c := w.plain(0), w.pusher("log", 0)
	h := p.create("f", 0o644)
	c.wrote(c.lease(h), 0, "bye")
	if err := c.s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := p.write(h, 0, "B"); st != nfs3.OK {
		t.Fatal(st)
	}
	p.has(h, "Bye")
}

// TestResumed: leases survive the end of a connection.
func TestResumed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	p, c := w.plain(0), w.pusher("log", 0)
	h := p.create("f", 0o644)
	l := c.lease(h)
	before := c.s.ID()
	c.cut()
	until(t, "another session", func() bool { return c.s.ID() != before })
	c.wrote(l, 0, "still mine")
	p.has(h, "still mine")
	if again := c.lease(h); again != l {
		t.Errorf("lease %d, then %d", l, again)
	}
}
