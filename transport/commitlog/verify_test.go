package commitlog_test

import (
	"errors"
	"io"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// bad is memory whose medium cannot be read back, or holds something else from the nth reading on.
type bad struct {
	*pmemtest.Sim
	unread error
	n      int
}

func (b *bad) Verifiable() error { return b.unread }

func (b *bad) ReadBack(w io.Writer, off, n int) error {
	if b.n--; b.n < 0 {
		_, err := w.Write(make([]byte, n))
		return err
	}
	return b.Sim.ReadBack(w, off, n)
}

// TestNotVerifiable: a log on a medium that cannot be read back says so in its answer. A producer that wants to verify gets
// no session, over a connection and without one; others append.
func TestNotVerifiable(t *testing.T) {
	l := newTestLog(t, &bad{Sim: sim(4096), unread: region.ErrNotVerifiable}, commitlog.WAL)
	wants := newTestProducer(t, &commitlog.ProducerOptions{Verify: true})
	c, s := connect(t, wants, pipes, nil)
	a, err := l.Advertise(t.Context(), s)
	if err != nil || a.Hash != commitlog.NoHash || a.Hash.String() != "none" {
		t.Fatalf("%+v %v", a, err)
	}
	again, err := commitlog.ParseAnswer(a.Append(nil))
	if err != nil || *again != *a {
		t.Fatalf("%+v %v", again, err)
	}
	if err := wants.Open(c, a); !errors.Is(err, commitlog.ErrNotVerifiable) {
		t.Error(err)
	}
	if err := l.Local(t.Context(), wants); !errors.Is(err, commitlog.ErrNotVerifiable) {
		t.Error(err)
	}
	p := newTestProducer(t, nil)
	session(t, l, p, pipes)
	if r, err := p.Append(t.Context(), []byte("unverified")); err != nil || r != (commitlog.Result{1, commitlog.Persistent}) {
		t.Error(r, err)
	}
	take(t, l, 1, "unverified")
}

// TestLocalVerifies: also without a connection a record is part of the log only if the medium holds it.
func TestLocalVerifies(t *testing.T) {
	l := newTestLog(t, &bad{Sim: sim(4096), n: 1}, commitlog.WAL)
	p := newTestProducer(t, &commitlog.ProducerOptions{Verify: true})
	noErr(t, l.Local(t.Context(), p))
	must(p.Append(t.Context(), []byte("one")))(t)
	if r, err := p.Append(t.Context(), []byte("two")); !errors.Is(err, commitlog.ErrMismatch) {
		t.Error("a record that the medium does not hold:", r, err)
	}
	take(t, l, 1, "one")
	if r, err := l.TryNext(); r != nil || err != nil {
		t.Error(r, err)
	}
}
