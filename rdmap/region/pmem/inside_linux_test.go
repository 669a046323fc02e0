package pmem

import (
	"crypto/sha256"
	"errors"
	"hash/crc32"
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
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

// mapped returns a mapping of two pages, of which the second is gone.
func mapped(t *testing.T) []byte {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	if err := f.Truncate(int64(page)); err != nil {
		t.Fatal(err)
	}
	b, err := unix.Mmap(int(f.Fd()), 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(unix.Munmap(b), f.Close()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// Loads, stores, and the assembly of the library.
func TestCatch(t *testing.T) {
	b := mapped(t)
	page := len(b) / 2
	sink := make([]byte, len(b))
	for name, f := range map[string]func(){
		"load":   func() { sink[0] = b[page] },
		"store":  func() { b[page] = 1 },
		"in":     func() { copy(b, sink) },
		"out":    func() { copy(sink, b) },
		"crc32c": func() { crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) },
		"sha256": func() { sha256.Sum256(b) },
	} {
		at, err := catchFault(b, func() error { f(); return nil })
		if at == nil || err != nil {
			t.Errorf("%s: %v, %v", name, at, err)
			continue
		}
		if _, ok := errors.AsType[runtime.Error](at); !ok || at.Off < page-64 || at.Off >= len(b) {
			t.Errorf("%s: at octet %d: %v", name, at.Off, at)
		}
	}
	want := errors.New("of f")
	if at, err := catchFault(b, func() error { b[0]++; return want }); at != nil || !errors.Is(err, want) {
		t.Errorf("%v, %v", at, err)
	}
}

// Faults elsewhere, and other panics, are not ours.
func TestCatchOthers(t *testing.T) {
	b, other := mapped(t), mapped(t)
	front := b[:len(b)/2] // what follows it is gone
	sink := make([]byte, len(b))
	var null *[8]byte
	for name, f := range map[string]func(){
		"another mapping": func() { other[len(other)-1]++ },
		"nil":             func() { null[0]++ },
		"bounds":          func() { b[len(sink)]++ },
		"any":             func() { panic("any") },
		"after it":        func() { b[len(front)]++ },
	} {
		r := func() (r any) {
			defer func() { r = recover() }()
			_, _ = catchFault(front, func() error { f(); return nil })
			return nil
		}()
		if r == nil {
			t.Errorf("%s: no panic", name)
		}
	}
	if _, err := catchFault(nil, func() error { return nil }); err != nil {
		t.Error(err)
	}
	// The innermost catchFault for a mapping catches its faults, however deeply they are nested.
	at, err := catchFault(other, func() error {
		_, err := catchFault(b, func() error { other[len(other)-1]++; return nil })
		return err
	})
	if at == nil || err != nil {
		t.Errorf("%v %v", at, err)
	}
}

func TestCatchAllocates(t *testing.T) {
	b := mapped(t)
	p := make([]byte, 64)
	n := testing.AllocsPerRun(100, func() {
		_, _ = catchFault(b, func() error { copy(b, p); return nil })
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A pipe refuses all system calls that make octets durable: each is really made, and its error is returned.
func TestErrorsOfTheSystem(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	d := &device{f: w, out: w, path: "pipe", size: 4095}
	s := &shadow{d: d, data: make([]byte, 4096)}
	m := &mapping{d: d, data: s.data[1:]} // not at the beginning of a page
	one := []region.Range{{Off: 0, N: 1}}
	for name, tt := range map[string]struct {
		err, kind, cause error
	}{
		"datasync":   {d.datasync(), ErrFailed, syscall.EINVAL},
		"write":      {d.write(s.data, 0), ErrFailed, syscall.ESPIPE},
		"write sync": {d.writeSync(s.data, 0), ErrFailed, syscall.ESPIPE},
		"settle":     {d.settle(), ErrOpen, syscall.EINVAL},
		"check":      {d.check(), region.ErrRegionLost, nil},
		"shadow":     {s.persist(one), ErrFailed, syscall.ESPIPE},
		"mapping":    {m.persist(one), ErrFailed, syscall.EINVAL},
	} {
		if !errors.Is(tt.err, tt.kind) || tt.cause != nil && !errors.Is(tt.err, tt.cause) {
			t.Errorf("%s: %v, want %v of %v", name, tt.err, tt.kind, tt.cause)
		}
	}
}

// If the kernel has no single call for a durable write, two calls are made. There is none for files of /proc, which
// cannot be synced either.
func TestNoSingleCall(t *testing.T) {
	f, err := os.OpenFile("/proc/self/coredump_filter", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	value := make([]byte, 8)
	if _, err := f.ReadAt(value, 0); err != nil {
		t.Fatal(err)
	}
	d := &device{f: f, out: f, path: f.Name()}
	if err := d.writeSync(append([]byte("0x"), value...), 0); !errors.Is(err, syscall.EINVAL) || !d.split {
		t.Errorf("%v, in two calls: %v", err, d.split)
	}
}

// A file whose status cannot be read is lost, and so is one that is longer than it was or has no name.
func TestCheck(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	d := &device{f: f, out: f, size: 2}
	for _, tt := range []struct {
		name   string
		change func() error
		want   error
	}{
		{"as it was", func() error { return f.Truncate(2) }, nil},
		{"shorter", func() error { return f.Truncate(1) }, region.ErrRegionLost},
		{"longer", func() error { return f.Truncate(3) }, region.ErrRegionLost},
		{"no name", func() error { return errors.Join(f.Truncate(2), os.Remove(f.Name())) }, region.ErrRegionLost},
		{"closed", f.Close, region.ErrRegionLost},
	} {
		if err := tt.change(); err != nil {
			t.Fatal(err)
		}
		if err := d.check(); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
