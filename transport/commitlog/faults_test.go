package commitlog_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// fileLog makes a log in a file.
func fileLog(t *testing.T, kind pmem.Kind, f *pmemtest.Faults) (*commitlog.Log, *pmem.Memory, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	size := must(commitlog.MemorySize(1 << 16))(t)
	noErr(t, pmem.Create(path, size, nil))
	mem := must(pmem.Open(kind, path, f.Hook()))(t)
	t.Cleanup(func() { mem.Close() })
	return newTestLog(t, mem, commitlog.WAL), mem, path
}

// fails appends until something is wrong, which the connection ends with, and reports
// the last number that was acknowledged.
func fails(t *testing.T, p *commitlog.Producer, c *rdmap.Conn) (acked uint64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-c.Done()
		cancel()
	}()
	for {
		r, err := p.Append(ctx, []byte("record"))
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			return acked
		}
		acked = r.Seq
	}
}

// One fdatasync fails, and would succeed if it were repeated: nothing later is
// acknowledged, no session can be opened, and all that was acknowledged is found by
// recovery (ADVERSARY 22).
func TestSyncFailsOnce(t *testing.T) {
	f := pmemtest.NewFaults()
	l, mem, path := fileLog(t, pmem.File, f)
	p := newTestProducer(t, nil)
	c, _ := session(t, l, p, pipes)
	must(p.Append(t.Context(), []byte("record")))(t)
	f.FailOnce(pmem.OpDatasync, syscall.EIO)
	if acked := fails(t, p, c); acked != 0 {
		t.Errorf("record %d is acknowledged after the failure", acked)
	}
	if err := l.Local(t.Context(), newTestProducer(t, nil)); !errors.Is(err, syscall.EIO) || !errors.Is(err, pmem.ErrFailed) {
		t.Error("a session on a failed memory:", err)
	}
	if _, err := l.Next(t.Context()); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	noErr(t, l.Close(t.Context()))
	noErr(t, mem.Close())
	again := must(pmem.Open(pmem.File, path, nil))(t)
	defer again.Close()
	l = openLog(t, again)
	take(t, l, 1, "record")
}

// The file is cut, removed, or full, under load: the error has a name, the process
// lives, nothing is acknowledged any more (ADVERSARY 25).
func TestFileDamage(t *testing.T) {
	for _, tt := range []struct {
		name   string
		kind   pmem.Kind
		damage func(path string, f *pmemtest.Faults)
		want   error
	}{
		{"cut", pmem.File, func(path string, _ *pmemtest.Faults) { _ = os.Truncate(path, 4096) }, region.ErrRegionLost},
		{"removed", pmem.File, func(path string, _ *pmemtest.Faults) { _ = os.Remove(path) }, region.ErrRegionLost},
		{"full", pmem.File, func(_ string, f *pmemtest.Faults) { f.FailOnce(pmem.OpWrite, syscall.ENOSPC) }, syscall.ENOSPC},
		{"mapping cut", pmem.Mmap, func(path string, _ *pmemtest.Faults) { _ = os.Truncate(path, 4096) }, region.ErrRegionLost},
		{"mapping, I/O error", pmem.Mmap, func(_ string, f *pmemtest.Faults) { f.FailOnce(pmem.OpMsync, syscall.EIO) }, syscall.EIO},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := pmemtest.NewFaults()
			l, _, path := fileLog(t, tt.kind, f)
			p := newTestProducer(t, nil)
			c, _ := session(t, l, p, pipes)
			must(p.Append(t.Context(), []byte("record")))(t)
			tt.damage(path, f)
			fails(t, p, c)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			var err error
			for err == nil {
				_, err = l.Next(ctx)
			}
			if !errors.Is(err, tt.want) {
				t.Error(err)
			}
			if _, err := p.Begin(nil); err != nil {
				t.Error("the producer has no session, but still lives:", err)
			}
		})
	}
}
