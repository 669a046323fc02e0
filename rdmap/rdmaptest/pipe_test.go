package rdmaptest

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/nettest"
)

func TestPipeIsANetConn(t *testing.T) {
	nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
		a, b := Pipe()
		return a, b, func() { a.Close(); b.Close() }, nil
	})
}

func TestPipeBuffers(t *testing.T) {
	a, b := PipeSize(4)
	if n, err := a.Write([]byte("abcd")); n != 4 || err != nil {
		t.Fatal(n, err)
	}
	a.SetWriteDeadline(time.Now().Add(time.Millisecond))
	if n, err := a.Write([]byte("e")); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(n, err)
	}
	a.CloseWrite()
	if got, err := io.ReadAll(b); string(got) != "abcd" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	if _, err := b.Write([]byte("x")); err != nil {
		t.Fatal("CloseWrite closed the other direction:", err)
	}
}

func TestReset(t *testing.T) {
	a, b := Pipe()
	a.Write([]byte("lost"))
	b.Reset()
	if _, err := b.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Fatalf("read after reset: %v", err)
	}
	if _, err := a.Write([]byte("x")); err == nil {
		t.Fatal("write after reset worked")
	}
}

func TestPipeInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe()
		b.SetReadDeadline(time.Now().Add(time.Hour))
		if _, err := b.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		b.SetReadDeadline(time.Time{})
		go a.Write([]byte("x"))
		if _, err := b.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	})
}

// TestDeadlineMovedAsItPasses: a deadline that is removed at the moment at which it passes has no effect.
func TestDeadlineMovedAsItPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe()
		for i := range 200 {
			_ = b.SetReadDeadline(time.Now().Add(time.Second))
			time.Sleep(time.Second)
			_ = b.SetReadDeadline(time.Time{})
			synctest.Wait()
			_, _ = a.Write([]byte("x"))
			if _, err := b.Read(make([]byte, 1)); err != nil {
				t.Fatalf("round %d: %v", i, err)
			}
		}
	})
}

// TestCloseEndsTimers: no timer of a closed end keeps running.
func TestCloseEndsTimers(t *testing.T) {
	a, b := Pipe()
	defer b.Close()
	a.SetDeadline(time.Now().Add(time.Hour))
	a.Close()
	if a.in.readDeadline.timer != nil || a.out.writeDeadline.timer != nil {
		t.Error("a timer still runs")
	}
}
