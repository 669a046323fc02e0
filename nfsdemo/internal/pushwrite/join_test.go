package pushwrite_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/internal/pushwrite"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
)

// held is Files that write nothing until they are released, and that record their calls.
type held struct {
	begun chan struct{} // closed by the first write
	once  sync.Once
	let   chan struct{}
	fail  func(p []byte) error

	mu     sync.Mutex
	writes []string
}

func (h *held) write(_ *server.Grant, p []byte, off uint64) error {
	h.once.Do(func() { close(h.begun) })
	<-h.let
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(p) > 8 {
		p = p[:8]
	}
	h.writes = append(h.writes, fmt.Sprintf("%s at %d", p, off))
	return h.fail(p)
}

func (h *held) were() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.writes)
}

// behind has a log with seven records of two files behind one that is held up, then applied.
func behind(t *testing.T, fail func(p []byte) error) (h *held, p *plain, f, g nfs3.FileHandle, c *pusher) {
	w := newWorld(t, nil)
	p, c = w.plain(0), w.pusher("log", 0)
	f, g = p.create("f", 0o644), p.create("g", 0o644)
	lf, lg := c.lease(f), c.lease(g)
	h = &held{begun: make(chan struct{}), let: make(chan struct{}), fail: fail}
	w.files.fail(h.write, nil)
	c.wrote(lf, 0, "0")
	w.pw.Hurry("log")
	<-h.begun // the first batch, which ends with this record
	for i, r := range []struct {
		lease, off uint64
		data       string
	}{{lf, 1, "1"}, {lf, 2, "2"}, {lf, 3, "3"}, {lg, 4, "4"}, {lf, 0, "a"}, {lf, 1, "b"}, {lf, 5, "z"}} {
		if err := c.write(r.lease, r.off, r.data); err != nil {
			t.Fatal(i, err)
		}
	}
	close(h.let)
	return h, p, f, g, c
}

// TestJoined: records that continue where the one before ends, in the same file, are written
// along with it, and no others; the order of the log is kept.
func TestJoined(t *testing.T) {
	h, p, f, g, c := behind(t, func([]byte) error { return nil })
	p.has(f, "ab23\x00z")
	p.has(g, "\x00\x00\x00\x004")
	if got, want := h.were(), []string{"0 at 0", "123 at 1", "4 at 4", "ab at 0", "z at 5"}; !slices.Equal(got, want) {
		t.Errorf("written: %q, want %q", got, want)
	}
	if st := c.status().State; st.Applied != 8 {
		t.Errorf("%+v", st)
	}
}

// TestJoinedError: where records cannot be written together each is written alone: the error is
// that of one, and what lies before it is applied.
func TestJoinedError(t *testing.T) {
	_, p, f, _, c := behind(t, func(p []byte) error {
		if len(p) > 1 || p[0] == '3' {
			return nfs3.ErrNoSpc
		}
		return nil
	})
	if _, st := p.read(f); st != nfs3.ErrIO {
		t.Error("read:", st)
	}
	if st := c.status().State; st.Applied != 3 || st.Record != 4 || st.Error != nfs3.ErrNoSpc {
		t.Errorf("%+v", st)
	}
}

// patient is a log whose batches gather for an hour, and whose first batch is being written:
// the record 0 of the file.
func patient(t *testing.T) (w *world, h *held, f nfs3.FileHandle, c *pusher, lease uint64) {
	w = newWorld(t, func(c *pushwrite.Config) { c.Limits.Capacity = 1 << 20; c.SetLinger(time.Hour) })
	c = w.pusher("log", 0)
	f = w.plain(0).create("f", 0o644)
	lease = c.lease(f)
	h = &held{begun: make(chan struct{}), let: make(chan struct{}), fail: func([]byte) error { return nil }}
	w.files.fail(h.write, nil)
	until(t, "the log is known", func() bool {
		return w.pw.IsSettled("log")
	})
	c.wrote(lease, 0, "0")
	w.pw.Hurry("log")
	<-h.begun
	return w, h, f, c, lease
}

// TestGathers: what comes while a batch is applied gathers too, unless somebody waits for it:
// a log that is written to all the time would else be applied a few records at a time.
func TestGathers(t *testing.T) {
	w, h, f, c, l := patient(t)
	c.wrote(l, 1, "1")
	close(h.let)
	until(t, "the first is applied", func() bool { return w.pw.Stats().Records == 1 })
	c.wrote(l, 2, "2")
	w.plain(0).has(f, "012")
	if got, want := h.were(), []string{"0 at 0", "12 at 1"}; !slices.Equal(got, want) {
		t.Errorf("written: %q, want %q", got, want)
	}
}

// TestFullBatch: a full batch does not wait for more records, nor do the records left after it.
func TestFullBatch(t *testing.T) {
	t.Parallel()
	w, h, _, c, l := patient(t)
	for i := range uint64(257) { // a batch, and one more
		c.wrote(l, 1+i, "x")
	}
	close(h.let)
	until(t, "all is applied", func() bool { return w.pw.Stats().Records == 1+257 })
}

// TestStartsAtOnce: records in a log when the server starts are applied at once, because Start waits for them.
func TestStartsAtOnce(t *testing.T) {
	w := newWorld(t, func(c *pushwrite.Config) { c.SetLinger(time.Hour) })
	p, c := w.plain(0), w.pusher("log", 0)
	f := p.create("f", 0o644)
	c.wrote(c.lease(f), 0, "0")
	w.restart(nil)
	p.has(f, "0")
}
