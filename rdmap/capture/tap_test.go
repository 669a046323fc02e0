package capture_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"

	"golang.org/x/net/nettest"

	"github.com/stag-rdma/stag/rdmap/capture"
)

func TestTap(t *testing.T) {
	file := capturing(t, func(w *capture.Writer) {
		a, b := net.Pipe()
		ta := w.TapClient(a)
		done := make(chan error, 1)
		go func() {
			p := make([]byte, 5)
			if _, err := io.ReadFull(b, p); err != nil {
				done <- err
				return
			}
			_, err := b.Write(bytes.ToUpper(p))
			done <- err
		}()
		if _, err := ta.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		p := make([]byte, 5)
		if _, err := io.ReadFull(ta, p); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		for range 2 {
			noErr(t, ta.Close())
		}
	})
	all := packets(t, file)
	if got := stream(t, all, 49152); string(got) != "hello" {
		t.Errorf("to the server: %q", got)
	}
	if got := stream(t, all, 20049); string(got) != "HELLO" {
		t.Errorf("to the client: %q", got)
	}
	if len(all) != 7 {
		t.Errorf("%d packets, want handshake, two segments and two FINs", len(all))
	}
}

func TestTapHalfClose(t *testing.T) {
	file := capturing(t, func(w *capture.Writer) {
		l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
		tl := w.TapListener(l)
		c := must(net.Dial("tcp", l.Addr().String()))(t)
		s := must(tl.Accept())(t)
		_ = tl.Close()
		noErr(t, s.(interface{ CloseWrite() error }).CloseWrite())
		if _, err := io.ReadAll(c); err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		if _, err := io.ReadAll(s); err != nil {
			t.Fatal(err)
		}
		_ = s.Close()
		a, _ := net.Pipe()
		if err := w.TapClient(a).(interface{ CloseWrite() error }).CloseWrite(); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("CloseWrite of a conn that cannot: %v", err)
		}
		if _, err := tl.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept: %v", err)
		}
	})
	if n := len(packets(t, file)); n != 3+2+3 {
		t.Errorf("%d packets, want two handshakes and two FINs", n)
	}
}

// TestNoWriter: without a Writer connections and listeners are returned as they are.
func TestNoWriter(t *testing.T) {
	var w *capture.Writer
	a, b := net.Pipe()
	if w.TapClient(a) != a || w.TapServer(b) != b || w.TapListener(nil) != nil {
		t.Error("a nil Writer taps")
	}
}

func TestTapIsANetConn(t *testing.T) {
	w := must(capture.NewWriter(io.Discard))(t)
	defer w.Close()
	nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
		a, b := net.Pipe()
		ta, tb := w.TapClient(a), w.TapServer(b)
		return ta, tb, func() { _, _ = ta.Close(), tb.Close() }, nil
	})
}
