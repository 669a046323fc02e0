package commitlog_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// TestCrashFile crashes the disk under a log in a file at every fdatasync, with all that the
// file system was told and not asked to sync lost in part or in whole, while appends wrap
// around the ring; and after each group that was acknowledged nothing but what was synced
// is left (ADVERSARY 19).
func TestCrashFile(t *testing.T) {
	for _, mode := range []commitlog.Mode{commitlog.Strict, commitlog.WAL} {
		t.Run(mode.String(), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			noErr(t, createFile(path, mode, 2048))
			w := new(witness)
			disk := pmemtest.NewDisk(path, w.crashed)
			mem := must(pmem.Open(pmem.File, path, disk.Hook()))(t)
			t.Cleanup(func() { mem.Close() })
			l := openLog(t, mem)
			p := newTestProducer(t, nil)
			p.Groups(2, 300)
			session(t, l, p, pipes)
			for round := range 12 {
				w.group(t, l, p, round)
				image := must(disk.Durable())(t)
				w.crashed(image)
				noErr(t, l.Release(uint64(3*round+3)))
			}
			if w.err != nil || w.images < 100 {
				t.Fatal(w.err, w.images)
			}
			t.Logf("%d images", w.images)
		})
	}
}

// crashed looks at one image.
func (w *witness) crashed(image []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.images++; w.err == nil {
		w.err = found(image, w.sent, w.acked)
	}
}

// group appends three records at once, and waits for them.
func (w *witness) group(t *testing.T, l *commitlog.Log, p *commitlog.Producer, round int) {
	t.Helper()
	var pending []*commitlog.Pending
	for i := range 3 {
		payload := fmt.Sprintf("%d-%d-%s", round, i, bytes.Repeat([]byte{'x'}, (round*37+i*61)%200))
		w.mu.Lock()
		w.sent = append(w.sent, payload)
		w.mu.Unlock()
		e := must(p.Begin([]byte(payload)))(t)
		pending = append(pending, e)
	}
	for _, e := range pending {
		r := must(e.Wait(t.Context()))(t)
		w.mu.Lock()
		w.acked = int(r.Seq)
		w.mu.Unlock()
		must(l.Next(t.Context()))(t)
	}
}
