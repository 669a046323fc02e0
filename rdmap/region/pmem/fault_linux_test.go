package pmem

import (
	"crypto/sha256"
	"errors"
	"hash/crc32"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

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
