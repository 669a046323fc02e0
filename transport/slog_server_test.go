package transport_test

import (
	"bytes"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/transport"
)

// lockedBuffer is a buffer for many goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestClientLines: who connects, and who has gone and why, is logged once each, on both transports.
func TestClientLines(t *testing.T) {
	var out lockedBuffer
	s, addr := served(t, overShared, newEcho(), &transport.Config{Logger: transport.SlogLogger(slog.NewTextHandler(&out, nil))})
	connect(t, "rdma", addr, nil).Close()
	for _, octets := range []string{"\x80\x00\x00\x04what", "MPA ID Rubbish Frame"} {
		c := must(net.Dial("tcp", addr))(t)
		_, _ = c.Write([]byte(octets)) // the server may close it
		if octets[0] == 'M' {
			_, _ = c.Read(make([]byte, 1)) // until the server has closed it
		}
		_ = c.Close()
	}
	waitFor(t, "the clients are gone", func() bool { return strings.Count(out.String(), "client gone") == 2 })
	mustDo(t, connect(t, "rdma", addr, nil), &nullCall) // the server knows that it is established
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		`level=INFO msg="transport: client connected" client=127\.0\.0\.1:\d+ transport=rdma\n`,
		`msg="transport: client gone" client=127\.0\.0\.1:\d+ transport=rdma why="the client closed the connection" after=.*s\n`,
		`msg="transport: client connected" client=127\.0\.0\.1:\d+ transport=tcp\n`,
		`msg="transport: client gone" client=127\.0\.0\.1:\d+ transport=tcp why="the client closed the connection" after=.*s\n`,
		`msg="transport: connection not established" client=127\.0\.0\.1:\d+ error=.*`,
		`msg="transport: client gone" client=127\.0\.0\.1:\d+ transport=rdma why="transport: server closed" after=.*s\n`,
	} {
		if n := len(regexp.MustCompile(want).FindAllString(out.String(), -1)); n != 1 && !(n == 2 && want[0] == 'l') {
			t.Errorf("%d lines like %s in\n%s", n, want, out.String())
		}
	}
}
