//go:build linux

package vec_test

import (
	"bytes"
	"io"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/stag-rdma/stag/rdmap/internal/vec"
)

func TestWritev(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var v vec.Writer
	pieces := [][]byte{[]byte("abc"), nil, []byte("d"), bytes.Repeat([]byte("e"), 1000)}
	fd := int(w.Fd())
	for _, vec := range [][][]byte{pieces, pieces[:1], pieces[1:2]} {
		if n, err := v.Writev(fd, vec, 0); err != nil || n != len(bytes.Join(vec, nil)) {
			t.Fatalf("wrote %d, %v", n, err)
		}
	}
	w.Close()
	got, _ := io.ReadAll(r)
	if want := string(bytes.Join(pieces, nil)) + "abc"; string(got) != want {
		t.Fatalf("got %q", got)
	}
	if _, err := v.Writev(-1, pieces, 0); err == nil {
		t.Fatal("no error from a bad descriptor")
	}
}

func TestWritevAllocs(t *testing.T) {
	f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd := int(f.Fd())
	var v vec.Writer
	vec := [][]byte{make([]byte, 10), make([]byte, 10)}
	if n := testing.AllocsPerRun(100, func() { v.Writev(fd, vec, 0) }); n != 0 && !raceEnabled {
		t.Fatalf("%v allocations", n)
	}
}

// TestWritevFlags: a write that is followed by more is not sent in segments of its own; one that ends a
// record is, even if the socket holds back what is not a full segment.
func TestWritevFlags(t *testing.T) {
	const writes = 8 // as many as may be in flight at once
	for _, tt := range []struct {
		name     string
		cork     int
		flags    int
		min, max int // segments
	}{
		{"more", 0, unix.MSG_MORE, 1, writes / 2}, // 1, unless the machine stops for 200 ms within
		{"corked", 1, 0, 1, writes / 2},
		{"end of record", 1, unix.MSG_EOR, writes, writes},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if n := segments(t, writes, tt.cork, tt.flags); n < tt.min || n > tt.max {
				t.Errorf("%d segments, want %d to %d", n, tt.min, tt.max)
			}
		})
	}
}

// segments returns how many segments carry the given number of short writes.
func segments(t *testing.T, writes, cork, flags int) int {
	t.Helper()
	if raceEnabled {
		t.Skip("writes are plain under the race detector, which is not told about sendmsg")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	rc, err := a.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var v vec.Writer
	if err := rc.Control(func(fd uintptr) {
		if err := unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_CORK, cork); err != nil {
			t.Error(err)
		}
		for i := range writes {
			f := flags
			if i == writes-1 {
				f &^= unix.MSG_MORE
			}
			if n, err := v.Writev(int(fd), [][]byte{{byte(i)}, nil, {1, 2}}, f); n != 3 || err != nil {
				t.Errorf("wrote %d, %v", n, err)
			}
		}
		if err := unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_CORK, 0); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 3*writes)
	if _, err := io.ReadFull(b, got); err != nil || got[3] != 1 || got[3*writes-3] != byte(writes-1) {
		t.Fatalf("%v, %v", got, err)
	}
	var info *unix.TCPInfo
	if err := rc.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	}); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return int(info.Data_segs_out)
}
