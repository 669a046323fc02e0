package accept

import (
	"context"
	"net"
	"time"
)

// Next accepts a connection; it waits and tries again while the process is out of
// descriptors. Anybody can bring that about by connecting often enough, to another listener of
// the process too, and it passes: it is no reason to stop listening. The other errors are those
// of l.Accept; and net.ErrClosed when ctx ends while it waits.
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
