package pmem

import (
	"testing"

	"golang.org/x/sys/unix"
)

// PretendDAX makes the kind DAX take ordinary files, for one test: all is real but for
// the proof, MAP_SYNC. It skips where there is no instruction, either.
func PretendDAX(t *testing.T) {
	t.Helper()
	if _, err := lineWriteBack(); err != nil {
		t.Skip(err)
	}
	was := daxFlags
	daxFlags = unix.MAP_SHARED_VALIDATE
	t.Cleanup(func() { daxFlags = was })
}

// PretendNoInstruction takes the write-back away, for one test.
func PretendNoInstruction(t *testing.T, err error) {
	t.Helper()
	was := lineWriteBack
	lineWriteBack = func() (string, error) { return "", err }
	t.Cleanup(func() { lineWriteBack = was })
}

// Direct reports whether m is written past the page cache.
func (m *Memory) Direct() bool { return m.d.out != m.d.f }

// TakesDirect reports whether the file system of m takes direct writes.
func (m *Memory) TakesDirect() bool { return takesDirect(m.d.f) }

// MaxDirect is how large such a memory may be.
const MaxDirect = maxDirect
