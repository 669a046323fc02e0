// Package accept keeps a server accepting connections when the process is out of descriptors
// ([Serve]), keeps one host from taking all the places of a server ([Strangers]), and from filling
// its log ([Sampled]).
package accept

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
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

// Sampled returns a logger for what anybody can cause: of each message it writes ten lines in a
// second, and then one in a hundred.
func Sampled(log *zap.Logger) *zap.Logger {
	if !log.Core().Enabled(zapcore.ErrorLevel) {
		return log // it writes nothing; the sampler would take half a megabyte
	}
	return log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(c, time.Second, 10, 100)
	}))
}

// Strangers counts, by host, the connections whose peers have not yet shown who they are, so
// that one host cannot take all places. The zero value is ready for use. Strangers is safe for
// concurrent use.
type Strangers struct {
	mu sync.Mutex
	n  map[string]int
}

// Enter counts a connection from address a, and reports whether it did: it does not if there
// are already most from the same host. After a true, call Leave once, when the peer has shown
// who it is or the connection is over.
func (s *Strangers) Enter(a net.Addr, most int) bool {
	host := peeraddr.Share(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n[host] >= most {
		return false
	}
	if s.n == nil {
		s.n = make(map[string]int)
	}
	s.n[host]++
	return true
}

// Leave ends the count of a connection that Enter has counted.
func (s *Strangers) Leave(a net.Addr) {
	host := peeraddr.Share(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n[host]--; s.n[host] == 0 {
		delete(s.n, host)
	}
}
