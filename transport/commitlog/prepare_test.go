package commitlog_test

import (
	"errors"
	"testing"

	"github.com/stag-rdma/stag/transport/commitlog"
)

// A session that was prepared has one producer, until another is prepared.
func TestPrepared(t *testing.T) {
	l := newTestLog(t, sim(4096), commitlog.WAL)
	one := must(l.Prepare(t.Context(), commitlog.Instance{}))(t)
	p := newTestProducer(t, nil)
	plain, s := connect(t, p, pipes, nil)
	if _, err := one.Attach(plain); err != nil { // of either side; it has the extension
		t.Fatal(err)
	}
	if _, err := one.Attach(s); !errors.Is(err, commitlog.ErrFenced) {
		t.Error("twice:", err)
	}
	if err := one.Local(p); !errors.Is(err, commitlog.ErrFenced) {
		t.Error("twice:", err)
	}
	two := must(l.Prepare(t.Context(), commitlog.Instance{}))(t)
	three := must(l.Prepare(t.Context(), commitlog.Instance{}))(t)
	if a, b := two.Answer(), three.Answer(); a.Epoch != 2 || b.Epoch != 3 || a.RingSTag != 0 || !b.Persistent {
		t.Error(a, b)
	}
	if _, err := two.Attach(s); !errors.Is(err, commitlog.ErrFenced) {
		t.Error("fenced:", err)
	}
	a, err := three.Attach(s)
	if err != nil || a.RingSTag == 0 {
		t.Fatal(a, err)
	}
}
