package accept

import (
	"context"
	"net"
	"time"
)

// Serve passes each connection that l accepts to conn, which it calls one after the other: conn starts a
// goroutine, or holds up the next connection. It returns the first error of l, and net.ErrClosed when ctx ends
// while the process is out of descriptors; to stop it at once, close l.
func Serve(ctx context.Context, l net.Listener, conn func(net.Conn)) error {
	for {
		c, err := next(ctx, l)
		if err != nil {
			return err
		}
		conn(c)
	}
}

// next accepts a connection. While the process is out of descriptors it waits, 5 ms and then
// ever longer up to 1 s, and tries again: anybody can cause this by connecting often enough, to
// any listener of the process, and it passes, so it is no reason to stop listening.
func next(ctx context.Context, l net.Listener) (net.Conn, error) {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		c, err := l.Accept()
		if err == nil || !isOutOfFiles(err) {
			return c, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, net.ErrClosed
		}
	}
}
