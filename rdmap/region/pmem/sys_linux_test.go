package pmem

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
)

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
