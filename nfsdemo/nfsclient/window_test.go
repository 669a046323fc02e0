package nfsclient_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
)

func testData(n int) nfsclient.Memory {
	m := make(nfsclient.Memory, n)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(m)
	return m
}

func TestWindow(t *testing.T) {
	data := testData(25)
	w := nfsclient.NewWindow(iotest.OneByteReader(bytes.NewReader(data)), 10)
	buf := make([]byte, 5)
	for _, tt := range []struct {
		name    string
		off     int64
		n       int
		release int64
		want    int
		err     error
	}{
		{"ahead of the first", 5, 5, 0, 5, nil},
		{"again", 5, 5, 0, 5, nil},
		{"first", 0, 5, 0, 5, nil},
		{"beyond the window", 8, 5, 0, 0, io.ErrShortBuffer},
		{"after a release", 10, 5, 7, 5, nil},
		{"released", 6, 1, 7, 0, io.ErrShortBuffer},
		{"last", 20, 5, 20, 5, nil},
		{"end", 25, 5, 20, 0, io.EOF},
		{"over the end", 23, 5, 20, 2, io.EOF},
	} {
		w.Release(tt.release)
		n, err := w.ReadAt(buf[:tt.n], tt.off)
		if n != tt.want || !errors.Is(err, tt.err) {
			t.Fatalf("%s: ReadAt = %d, %v, want %d, %v", tt.name, n, err, tt.want, tt.err)
		}
		if !bytes.Equal(buf[:n], data[tt.off:tt.off+int64(n)]) {
			t.Errorf("%s: got %x", tt.name, buf[:n])
		}
	}
}

func TestWindowErrors(t *testing.T) {
	bad := errors.New("tape torn")
	w := nfsclient.NewWindow(io.MultiReader(bytes.NewReader([]byte("abc")), iotest.ErrReader(bad)), 10)
	buf := make([]byte, 5)
	if n, err := w.ReadAt(buf, 0); n != 3 || !errors.Is(err, bad) {
		t.Errorf("ReadAt = %d, %v, want 3 and the reader's error", n, err)
	}
	w = nfsclient.NewWindow(stuck{}, 10)
	if n, err := w.ReadAt(buf, 0); n != 0 || !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("ReadAt = %d, %v, want io.ErrNoProgress", n, err)
	}
}

// stuck reads nothing, forever.
type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

func TestMemory(t *testing.T) {
	m := make(nfsclient.Memory, 5)
	if n, err := m.WriteAt([]byte("abcdef"), 0); n != 5 || !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("WriteAt past the end = %d, %v", n, err)
	}
	if b := m.Lend(3, 9); string(b) != "de" || cap(b) != 2 {
		t.Errorf("Lend = %q, cap %d", b, cap(b))
	}
	if b := m.Lend(5, 1); b != nil {
		t.Errorf("Lend at the end = %q", b)
	}
	if n, err := m.ReadAt(make([]byte, 2), 4); n != 1 || err != io.EOF {
		t.Errorf("ReadAt = %d, %v", n, err)
	}
}
