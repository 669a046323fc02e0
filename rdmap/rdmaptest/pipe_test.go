package rdmaptest

import (
	"errors"
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
