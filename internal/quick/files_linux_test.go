package quick_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/stag-rdma/stag/internal/quick"
	"github.com/stag-rdma/stag/rdmap/region"
	"golang.org/x/sys/unix"
)

// TestFiles: reads, writes and attributes are those of package os, on a file system of which nothing is known, on one
// that says when it would wait, and in memory; before the end of a file, across it and behind it; and where they fail.
func TestFiles(t *testing.T) {
	for _, dir := range []string{t.TempDir(), "/dev/shm"} {
		var fs unix.Statfs_t
		if unix.Statfs(dir, &fs) != nil {
			continue
		}
		for _, known := range []bool{false, true} {
			t.Run(fmt.Sprintf("%x/%v", fs.Type, known), func(t *testing.T) {
				var q quick.Files
				if known {
					q.On(int64(fs.Type)) //nolint:unconvert // another type on other machines
				}
				testFiles(t, &q, dir)
			})
		}
	}
}

func testFiles(t *testing.T, q *quick.Files, dir string) {
	f, err := os.CreateTemp(dir, "quick")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<10)
	for off := 0; off < len(data); off += len(data) / 4 { // each write grows the file
		if n, err := q.WriteAt(f, data[off:off+len(data)/4], int64(off)); n != len(data)/4 || err != nil {
			t.Fatal(n, err)
		}
	}
	for _, off := range []int64{-1, 0, 5, int64(len(data)) - 7, int64(len(data)), 1 << 40, 1<<63 - 2} {
		for _, size := range []int{0, 1, 7, 8, 4096, 2 << 20} {
			got, want := make([]byte, size), make([]byte, size)
			n, err := q.ReadAt(f, got, off)
			k, werr := f.ReadAt(want, off)
			if n != k || fmt.Sprint(err) != fmt.Sprint(werr) || !bytes.Equal(got, want) {
				t.Errorf("%d octets at %d: %d %v, and with package os %d %v", size, off, n, err, k, werr)
			}
		}
	}
	var st unix.Statx_t
	if err := q.Statx(int(f.Fd()), unix.STATX_BASIC_STATS, &st); err != nil || st.Size != uint64(len(data)) {
		t.Error(st.Size, err)
	}
	if err := q.Truncate(f, int64(len(data))); err != nil {
		t.Error(err)
	}
	r, err := os.Open(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	if n, err := q.WriteAt(r, data, 0); n != 0 || !errors.Is(err, syscall.EBADF) {
		t.Errorf("written to a file that is open to be read: %d, %v", n, err)
	}
	r.Close()
	if err := q.Statx(-1, unix.STATX_BASIC_STATS, &st); !errors.Is(err, syscall.EBADF) {
		t.Errorf("of no file: %v", err)
	}
	if n, err := q.ReadAt(r, data, 0); n != 0 || !errors.Is(err, os.ErrClosed) {
		t.Errorf("of a closed file: %d, %v", n, err)
	}
	if n, err := q.ReadAt(f, data, 0); n != len(data) || err != nil && err != io.EOF {
		t.Errorf("after that: %d, %v", n, err)
	}
}

// TestFilesAllocations: a read and a write cost no allocation.
func TestFilesAllocations(t *testing.T) {
	if region.RaceDetector {
		t.Skip("then they are ordinary calls")
	}
	f, err := os.CreateTemp(t.TempDir(), "quick")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var q quick.Files
	q.On(unix.TMPFS_MAGIC)
	p, st := make([]byte, 4096), new(unix.Statx_t)
	if n := testing.AllocsPerRun(100, func() {
		_, _ = q.WriteAt(f, p, 0)
		_, _ = q.ReadAt(f, p, 0)
		_ = q.Statx(int(f.Fd()), unix.STATX_BASIC_STATS, st)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestPoll: nothing, input, and the end of a connection are told apart, and a descriptor that is none from them.
func TestPoll(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	look := func(want int16) {
		t.Helper()
		if got, err := quick.Poll(fds[0], unix.POLLIN|unix.POLLRDHUP); got != want || err != nil {
			t.Errorf("events %#x, want %#x (%v)", got, want, err)
		}
	}
	look(0)
	_, _ = unix.Write(fds[1], []byte{1})
	look(unix.POLLIN)
	unix.Close(fds[1])
	look(unix.POLLIN | unix.POLLRDHUP | unix.POLLHUP)
	unix.Close(fds[0])
	look(unix.POLLNVAL)
}
