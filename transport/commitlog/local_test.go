package commitlog_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// A session without a connection ends as one with: what is queued does not begin anymore, and
// the next session waits for what is running, as long as its context lets it.
func TestLocalFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, f := faulty(4096)
		l := newTestLog(t, mem, commitlog.WAL)
		p := newTestProducer(t, nil)
		p.Groups(4, 1)
		noErr(t, l.Local(t.Context(), p))
		entered, release := f.Hang(pmem.OpPersist)
		var pending []*commitlog.Pending
		for _, s := range []string{"one", "two", "three"} {
			e := must(p.Begin([]byte(s)))(t)
			pending = append(pending, e)
		}
		<-entered // the flush of "one" runs
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := l.Local(gone, p); !errors.Is(err, region.ErrPinned) {
			t.Fatal("a session while the old one is flushing:", err)
		}
		opened := make(chan error)
		go func() { opened <- l.Local(t.Context(), p) }()
		synctest.Wait()
		select {
		case err := <-opened:
			t.Fatal("it did not wait:", err)
		default:
		}
		release()
		noErr(t, <-opened)
		for i, e := range pending {
			if r, err := e.Wait(t.Context()); err != nil || r.Seq != uint64(i+1) {
				t.Error(r, err)
			}
		}
		take(t, l, 1, "one", "two", "three")
	})
}

// A memory that hangs keeps who stays, and nobody else: an append behind it can be given
// up, and is not in the log then, and one more is left to another.
func TestLocalHangs(t *testing.T) {
	mem, f := faulty(4096)
	l := newTestLog(t, mem, commitlog.WAL)
	p := newTestProducer(t, nil)
	noErr(t, l.Local(t.Context(), p))
	entered, release := f.Hang(pmem.OpPersist)
	stays := make(chan error)
	go func() {
		_, err := p.Append(context.Background(), []byte("stays"))
		stays <- err
	}()
	<-entered
	e := must(p.Begin([]byte("given up")))(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Wait(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, commitlog.ErrInDoubt) {
		t.Error(err)
	}
	next := must(p.Begin([]byte("next")))(t)
	behind, releaseNext := f.Hang(pmem.OpPersist)
	release()
	if err := <-stays; err != nil {
		t.Error(err)
	}
	<-behind // not who stayed: that append is over
	releaseNext()
	if _, err := next.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	take(t, l, 1, "stays", "next")
}

// The memory under a producer of the same process fails: appends end with its error, those in progress and later ones.
func TestLocalMemoryFails(t *testing.T) {
	f := pmemtest.NewFaults()
	l, _, _ := fileLog(t, pmem.File, f)
	p := newTestProducer(t, nil)
	noErr(t, l.Local(t.Context(), p))
	must(p.Append(context.Background(), []byte("one")))(t)
	f.FailOnce(pmem.OpDatasync, syscall.EIO)
	var pending []*commitlog.Pending
	for range 3 {
		e, err := p.Begin([]byte("never"))
		if err != nil && !errors.Is(err, syscall.EIO) {
			t.Fatal(err)
		}
		if err == nil {
			pending = append(pending, e)
		}
	}
	for _, e := range pending {
		if _, err := e.Wait(t.Context()); !errors.Is(err, syscall.EIO) || !errors.Is(err, pmem.ErrFailed) {
			t.Error(err)
		}
	}
	if _, err := p.Append(context.Background(), []byte("never")); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	if err := l.Local(t.Context(), newTestProducer(t, nil)); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
}
