package pmem_test

import (
	"bytes"
	"errors"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
)

// What WriteBack was called for is in the file after the next Persist of any range, since it takes its turn before
// that. Nothing else is.
func TestWriteBack(t *testing.T) {
	m := open(t, pmem.File, newFile(t, 4096), nil)
	want := make([]byte, 4096)
	for i := range 8 {
		p := bytes.Repeat([]byte{byte(i + 1)}, 100)
		noErr(t, m.Store(i*128, p))
		if i%2 == 0 {
			m.WriteBack(i*128+10, 50)
			copy(want[i*128+10:], p[:50])
		}
	}
	m.WriteBack(4090, 7) // outside
	noErr(t, m.Persist(4000, 1))
	if got, err := os.ReadFile(m.Path()); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%x, %v", got, err)
	}
	noErr(t, m.Close())
	m.WriteBack(0, 1)
}

// WriteBack does not wait for a flush that hangs, and many calls do not cost memory. An error is final, although nobody
// waited for it.
func TestWriteBackHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := pmemtest.NewFaults()
		m := open(t, pmem.File, newFile(t, 4097), &pmem.Options{Hooks: f.Hooks()}) // no whole blocks
		n := f.Count(pmem.OpWrite)
		entered, release := f.Hang(pmem.OpDatasync)
		start := time.Now()
		m.WriteBack(0, 1)
		<-entered
		for k := range 1000 {
			m.WriteBack(2*(k%2000), 1) // 1000 ranges that do not touch
		}
		if time.Since(start) != 0 {
			t.Error("WriteBack waited for the flush")
		}
		release()
		noErr(t, m.Persist(4095, 1))
		if got := f.Count(pmem.OpWrite) - n; got > 260 || got < 250 {
			t.Errorf("%d writes", got)
		}
		f.Fail(pmem.OpDatasync, syscall.EIO)
		m.WriteBack(0, 1)
		<-m.Failed()
		if err := m.Persist(0, 1); !errors.Is(err, syscall.EIO) {
			t.Error(err)
		}
		f.Clear(pmem.OpDatasync)
		n = f.Count(pmem.OpWrite) + f.Count(pmem.OpDatasync)
		m.WriteBack(0, 1)
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if f.Count(pmem.OpWrite)+f.Count(pmem.OpDatasync) != n {
			t.Error("written back after the final error")
		}
	})
}
