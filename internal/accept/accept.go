package accept

import (
	"context"
	"net"
	"time"
)

// Next accepts a connection. While the process is out of descriptors it waits, 5 ms and then
// ever longer up to 1 s, and tries again: anybody can cause this by connecting often enough, to
// any listener of the process, and it passes, so it is no reason to stop listening. Next returns
// all other errors of l.Accept, and net.ErrClosed when ctx ends while it waits.
func Next(ctx context.Context, l net.Listener) (net.Conn, error) {
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
