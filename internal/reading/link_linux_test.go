package reading_test

import (
	"net"
	"testing"
	"time"

	"github.com/stag-rdma/stag/internal/reading"
)

// descriptor returns the number of that of c.
func descriptor(t *testing.T, c *net.TCPConn) (fd uintptr) {
	t.Helper()
	rc, err := c.SyscallConn()
	if err == nil {
		err = rc.Control(func(f uintptr) { fd = f })
	}
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// TestForgetClosed: a connection that is closed before its link is told to forget it does not take the watcher of the one
// that has its descriptor by then.
func TestForgetClosed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	pair := func() (own *net.TCPConn, peer net.Conn) {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if peer, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(); peer.Close() })
		return c.(*net.TCPConn), peer
	}
	for try := 0; ; try++ {
		first, _ := pair()
		a := reading.NewTCP(first)
		a.Watch(func() {})
		fd := descriptor(t, first)
		first.Close()
		second, peer := pair()
		if descriptor(t, second) != fd { // somebody else has it
			if a.Forget(); try == 100 {
				t.Skip("descriptors are not used again")
			}
			continue
		}
		b, ready := reading.NewTCP(second), make(chan struct{})
		b.Watch(func() { close(ready) })
		a.Unwatch()
		a.Forget()
		peer.Close()
		select {
		case <-ready:
		case <-time.After(time.Minute):
			t.Error("the end of the stream is not noticed")
		}
		b.Forget()
		return
	}
}
