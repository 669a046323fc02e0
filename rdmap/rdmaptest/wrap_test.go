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

func TestPieces(t *testing.T) {
	a, b := rdmaptest.Pipe()
	rec := &rdmaptest.Record{Conn: a}
	w := rdmaptest.Wrap(rec, rdmaptest.Faults{In: rdmaptest.Fault{MaxPiece: 3}, Out: rdmaptest.Fault{MaxPiece: 2}, Seed: 7})
	want := bytes.Repeat([]byte("0123456789"), 20)
	go func() {
		_, _ = io.CopyN(b, b, int64(len(want)))
		_ = b.Close()
	}()
	if n, err := w.Write(want); n != len(want) || err != nil {
		t.Fatal(n, err)
	}
	if got, err := io.ReadAll(w); !bytes.Equal(got, want) || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	sizes := [2][4]int{}
	for _, ev := range rec.Events() {
		if ev.Err != nil {
			continue
		}
		i := 0
		if ev.Out {
			i = 1
		}
		if len(ev.Data) > 3-i {
			t.Fatalf("a piece of %d octets, out: %v", len(ev.Data), ev.Out)
		}
		sizes[i][len(ev.Data)]++
	}
	for i, n := range [...]int{sizes[0][1], sizes[0][2], sizes[0][3], sizes[1][1], sizes[1][2]} {
		if n < 10 {
			t.Errorf("size %d of 5 came %d times", i, n)
		}
	}
	if in, out := w.Offsets(); in != 200 || out != 200 {
		t.Errorf("offsets %d and %d", in, out)
	}
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

// TestDelay: a piece is delayed; a deadline that passes in that time is obeyed, and the piece arrives later.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := rdmaptest.Pipe()
		w := rdmaptest.Wrap(b, rdmaptest.Faults{In: rdmaptest.Fault{Delay: time.Hour}, Out: rdmaptest.Fault{Delay: time.Minute, MaxPiece: 1}})
		_, _ = a.Write([]byte("late"))
		start := time.Now()
		p := make([]byte, 3)
		_ = w.SetReadDeadline(start.Add(time.Second))
		if n, err := w.Read(p); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Second {
			t.Fatal(n, err, time.Since(start))
		}
		_ = w.SetReadDeadline(time.Time{})
		if n, err := w.Read(p); string(p[:n]) != "lat" || err != nil || time.Since(start) != time.Hour {
			t.Fatalf("%q, %v after %v", p[:n], err, time.Since(start))
		}
		if n, err := w.Read(p); string(p[:n]) != "e" || err != nil || time.Since(start) != 2*time.Hour {
			t.Fatalf("%q, %v after %v", p[:n], err, time.Since(start))
		}
		start = time.Now()
		_ = w.SetWriteDeadline(start.Add(3*time.Minute + time.Second))
		if n, err := w.Write([]byte("slowly")); n != 3 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(n, err)
		}
		if d := time.Since(start); d != 3*time.Minute+time.Second {
			t.Fatal(d)
		}
	})
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

// TestCutWhileWaiting: Set, Reset and Close affect calls that are waiting.
func TestCutWhileWaiting(t *testing.T) {
	for name, act := range map[string]struct {
		do   func(a *rdmaptest.Conn, w *rdmaptest.Faulty)
		want error
	}{
		"set": {func(a *rdmaptest.Conn, w *rdmaptest.Faulty) {
			w.Set(rdmaptest.Faults{In: rdmaptest.Fault{Cut: rdmaptest.CutEnd}})
			_, _ = a.Write([]byte("too late"))
		}, io.EOF},
		"reset": {func(_ *rdmaptest.Conn, w *rdmaptest.Faulty) { w.Reset() }, syscall.ECONNRESET},
		"close in silence": {func(a *rdmaptest.Conn, w *rdmaptest.Faulty) {
			w.Set(rdmaptest.Faults{In: rdmaptest.Fault{Cut: rdmaptest.CutSilence}})
			_, _ = a.Write([]byte("unheard"))
			synctest.Wait()
			_ = w.Close()
		}, net.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := rdmaptest.Pipe()
				w := rdmaptest.Wrap(b, rdmaptest.Faults{})
				got := make(chan error, 1)
				go func() {
					_, err := w.Read(make([]byte, 9))
					got <- err
				}()
				synctest.Wait()
				act.do(a, w)
				if err := <-got; !errors.Is(err, act.want) {
					t.Errorf("%v, want %v", err, act.want)
				}
			})
		})
	}
}

// TestResetOfTCP: the other end sees a reset, not the end of the stream.
func TestResetOfTCP(t *testing.T) {
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
	w := rdmaptest.Wrap(b, rdmaptest.Faults{Out: rdmaptest.Fault{Cut: rdmaptest.CutReset, CutAt: 2}})
	if n, err := w.Write([]byte("hello")); n != 2 || !errors.Is(err, syscall.ECONNRESET) {
		t.Fatal(n, err)
	}
	if _, err := io.ReadAll(a); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatal(err)
	}
}

// TestHalfClose: a wrapped connection can half-close if the connection itself can.
func TestHalfClose(t *testing.T) {
	a, b := rdmaptest.Pipe()
	if err := (&rdmaptest.Record{Conn: rdmaptest.Wrap(a, rdmaptest.Faults{})}).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Read(make([]byte, 1)); err != io.EOF {
		t.Fatal(err)
	}
	c, _ := net.Pipe()
	if err := rdmaptest.Wrap(&rdmaptest.Record{Conn: c}, rdmaptest.Faults{}).CloseWrite(); !errors.Is(err, errors.ErrUnsupported) {
		t.Fatal(err)
	}
}

// TestResumedWrite: octets that are not written because of a deadline have not passed, so the flipped bit is the
// right one of the stream.
func TestResumedWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := rdmaptest.PipeSize(4)
		w := rdmaptest.Wrap(a, rdmaptest.Faults{Out: rdmaptest.Fault{Flip: []int64{8 * 5}}})
		_ = w.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := w.Write(make([]byte, 8))
		if n != 4 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(n, err)
		}
		_ = w.SetWriteDeadline(time.Time{})
		go func() {
			_, _ = w.Write(make([]byte, 4))
			_ = w.Close()
		}()
		if got, err := io.ReadAll(b); !bytes.Equal(got, []byte{0, 0, 0, 0, 0, 0x80, 0, 0}) || err != nil {
			t.Fatalf("%x, %v", got, err)
		}
	})
}
