package rdmaptest_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/nettest"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

// TestWrapIsANetConn: with pieces and delays, the result still behaves like a net.Conn.
func TestWrapIsANetConn(t *testing.T) {
	nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
		a, b := rdmaptest.Pipe()
		w := rdmaptest.Wrap(b, rdmaptest.Faults{In: rdmaptest.Fault{MaxPiece: 700}, Out: rdmaptest.Fault{MaxPiece: 900, Delay: time.Microsecond}})
		return a, w, func() { _, _ = a.Close(), w.Close() }, nil
	})
}

// TestFlip: exactly the named bits arrive inverted, however the stream is cut, and the writer's own octets are
// not changed.
func TestFlip(t *testing.T) {
	flips := []int64{799, 0, 9, 100, 8}
	want := make([]byte, 100)
	for _, bit := range flips {
		want[bit/8] ^= 0x80 >> (bit % 8)
	}
	for _, piece := range []int{0, 1, 7} {
		a, b := rdmaptest.Pipe()
		out := rdmaptest.Wrap(a, rdmaptest.Faults{Out: rdmaptest.Fault{MaxPiece: piece, Flip: flips}})
		zeros := make([]byte, 100)
		if n, err := out.Write(zeros); n != 100 || err != nil {
			t.Fatal(n, err)
		}
		if !bytes.Equal(zeros, make([]byte, 100)) {
			t.Errorf("the writer's octets have changed: %x", zeros)
		}
		got := make([]byte, 100)
		if _, err := io.ReadFull(b, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("written in pieces of %d: %x, %v", piece, got, err)
		}
		in := rdmaptest.Wrap(b, rdmaptest.Faults{In: rdmaptest.Fault{MaxPiece: piece, Flip: flips}})
		_, _ = a.Write(zeros)
		if _, err := io.ReadFull(in, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("read in pieces of %d: %x, %v", piece, got, err)
		}
	}
}

// TestCuts: every way of cutting, in each direction, at every octet.
func TestCuts(t *testing.T) {
	for at := range int64(6) {
		for _, cut := range []rdmaptest.Cut{rdmaptest.CutReset, rdmaptest.CutEnd, rdmaptest.CutSilence} {
			synctest.Test(t, func(t *testing.T) { cutOut(t, cut, at) })
			synctest.Test(t, func(t *testing.T) { cutIn(t, cut, at) })
		}
	}
}

// cutOut writes "hello" to a connection that is cut after at octets.
func cutOut(t *testing.T, cut rdmaptest.Cut, at int64) {
	a, b := rdmaptest.Pipe()
	w := rdmaptest.Wrap(a, rdmaptest.Faults{Out: rdmaptest.Fault{Cut: cut, CutAt: at}})
	n, err := w.Write([]byte("hello"))
	got := make([]byte, 9)
	_ = b.SetReadDeadline(time.Now().Add(time.Second))
	m, rerr := io.ReadFull(b, got)
	all := at >= 5 // nothing has gone wrong yet
	wantErr := map[rdmaptest.Cut]error{rdmaptest.CutReset: syscall.ECONNRESET, rdmaptest.CutEnd: syscall.EPIPE}[cut]
	wantEnd := map[rdmaptest.Cut]error{rdmaptest.CutReset: syscall.ECONNRESET, rdmaptest.CutEnd: io.EOF, rdmaptest.CutSilence: os.ErrDeadlineExceeded}[cut]
	switch {
	case all:
		wantErr, wantEnd = nil, os.ErrDeadlineExceeded
	case cut == rdmaptest.CutEnd && m > 0:
		wantEnd = io.ErrUnexpectedEOF
	}
	if !errors.Is(err, wantErr) || err == nil && n != 5 || err != nil && int64(n) != at {
		t.Errorf("cut %d at %d: wrote %d, %v", cut, at, n, err)
	}
	if cut != rdmaptest.CutReset && int64(m) != min(at, 5) || !errors.Is(rerr, wantEnd) {
		t.Errorf("cut %d at %d: the other end read %d, %v", cut, at, m, rerr)
	}
}

// cutIn reads "hello" from a connection that is cut after at octets.
func cutIn(t *testing.T, cut rdmaptest.Cut, at int64) {
	a, b := rdmaptest.Pipe()
	w := rdmaptest.Wrap(b, rdmaptest.Faults{In: rdmaptest.Fault{Cut: cut, CutAt: at}})
	_, _ = a.Write([]byte("hello"))
	_ = w.SetReadDeadline(time.Now().Add(time.Second))
	got, err := io.ReadAll(w)
	want := map[rdmaptest.Cut]error{rdmaptest.CutReset: syscall.ECONNRESET, rdmaptest.CutSilence: os.ErrDeadlineExceeded}[cut]
	if at == 5 && cut == rdmaptest.CutReset {
		want = syscall.ECONNRESET // the next Read finds it
	}
	if int64(len(got)) != at || !errors.Is(err, want) {
		t.Errorf("cut %d at %d: %q, %v", cut, at, got, err)
	}
	if cut == rdmaptest.CutReset {
		if _, err := w.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("write after reset: %v", err)
		}
	}
}
