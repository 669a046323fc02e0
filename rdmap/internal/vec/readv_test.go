//go:build linux

package vec_test

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/stag-rdma/stag/rdmap/internal/vec"
)

func TestReadv(t *testing.T) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	r, w := os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
	defer r.Close()
	defer w.Close()
	var in vec.Reader
	a, b := make([]byte, 3), make([]byte, 10)
	if n, err := in.Readv(fds[0], [][]byte{a, b}); n != 0 || !errors.Is(err, unix.EAGAIN) {
		t.Fatalf("%d octets of none, %v", n, err)
	}
	if _, err := w.WriteString("abcdefg"); err != nil {
		t.Fatal(err)
	}
	n, err := in.Readv(fds[0], [][]byte{nil, a, {}, b})
	if n != 7 || err != nil || string(a) != "abc" || !bytes.Equal(b, []byte("defg\x00\x00\x00\x00\x00\x00")) {
		t.Fatalf("%d octets, %v: %q %q", n, err, a, b)
	}
	w.Close()
	if n, err := in.Readv(fds[0], [][]byte{a, b}); n != 0 || err != nil {
		t.Fatalf("%d octets at the end, %v", n, err)
	}
	if n, err := in.Readv(fds[0], nil); n != 0 || err != nil {
		t.Fatalf("%d octets into nothing, %v", n, err)
	}
}
