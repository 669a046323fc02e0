package pmem

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// PretendDAX makes the kind DAX accept ordinary files, for one test: everything is real except the proof, MAP_SYNC. It
// skips the test if there is no instruction either.
func PretendDAX(t *testing.T) {
	t.Helper()
	if _, err := lineWriteBack(); err != nil {
		t.Skip(err)
	}
	was := daxFlags
	daxFlags = unix.MAP_SHARED_VALIDATE
	t.Cleanup(func() { daxFlags = was })
}

// PretendNoInstruction makes the write-back instruction unavailable, for one test.
func PretendNoInstruction(t *testing.T, err error) {
	t.Helper()
	was := lineWriteBack
	lineWriteBack = func() (string, error) { return "", err }
	t.Cleanup(func() { lineWriteBack = was })
}

// Direct reports whether m is written past the page cache.
func (m *Memory) Direct() bool { return m.d.out != m.d.f }

// TakesDirect reports whether the file system of m supports direct writes.
func (m *Memory) TakesDirect() bool { return takesDirect(m.d.f) }

// MaxDirect is the largest size of a memory that is written past the page cache.
const MaxDirect = maxDirect

// Warm makes m read back through the page cache, as where the file system has no direct reads.
func (m *Memory) Warm(t *testing.T) {
	t.Helper()
	in, err := reopen(m.d.f, os.O_RDONLY, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.d.in.Close(); err != nil {
		t.Fatal(err)
	}
	m.d.in, m.d.cold = in, false
}
