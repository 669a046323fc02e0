//go:build linux

package vec

import (
	"bytes"
	"io"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestWritev(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var v Writer
	pieces := [][]byte{[]byte("abc"), nil, []byte("d"), bytes.Repeat([]byte("e"), 1000)}
	fd := int(w.Fd())
	for _, vec := range [][][]byte{pieces, pieces[:1], pieces[1:2]} {
		if n, err := v.Writev(fd, vec, false); err != nil || n != len(bytes.Join(vec, nil)) {
			t.Fatalf("wrote %d, %v", n, err)
		}
	}
	w.Close()
	got, _ := io.ReadAll(r)
	if want := string(bytes.Join(pieces, nil)) + "abc"; string(got) != want {
		t.Fatalf("got %q", got)
	}
	if _, err := v.Writev(-1, pieces, false); err == nil {
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
	var v Writer
	vec := [][]byte{make([]byte, 10), make([]byte, 10)}
	if n := testing.AllocsPerRun(100, func() { v.Writev(fd, vec, false) }); n != 0 && !raceEnabled {
		t.Fatalf("%v allocations", n)
	}
}

// TestWritevMore: a write that is followed by more is not sent in segments of its own.
func TestWritevMore(t *testing.T) {
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
	const writes = 8 // as many as may be in flight at once
	var v Writer
	var info *unix.TCPInfo
	if err := rc.Control(func(fd uintptr) {
		for i := range writes {
			if n, err := v.Writev(int(fd), [][]byte{{byte(i)}, nil, {1, 2}}, i < writes-1); n != 3 || err != nil {
				t.Errorf("wrote %d, %v", n, err)
			}
		}
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	}); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 3*writes)
	if _, err := io.ReadFull(b, got); err != nil || got[3] != 1 || got[3*writes-3] != writes-1 {
		t.Fatalf("%v, %v", got, err)
	}
	if info.Data_segs_out > writes/2 { // one, unless the machine stops for 200 ms within
		t.Errorf("%d segments", info.Data_segs_out)
	}
}
