package transport_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
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
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var out lockedBuffer
	s := &transport.Server{
		Handler: rpc.HandlerFunc(func(context.Context, *rpc.Request, *rpc.Response) {}),
		Config:  &transport.Config{Logger: transport.SlogLogger(slog.NewTextHandler(&out, nil))},
	}
	served := make(chan error)
	go func() { served <- s.ServeShared(l) }()
	rdma, err := transport.Dial(t.Context(), "tcp", l.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = rdma.Close()
	for _, octets := range []string{"\x80\x00\x00\x04what", "MPA ID Rubbish Frame"} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write([]byte(octets)) // the server may close it
		if octets[0] == 'M' {
			_, _ = c.Read(make([]byte, 1)) // until the server has closed it
		}
		_ = c.Close()
	}
	for deadline := time.Now().Add(time.Minute); strings.Count(out.String(), "client gone") < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the clients are not gone:", out.String())
		}
	}
	stays, err := transport.Dial(t.Context(), "tcp", l.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer stays.Close()         //nolint:errcheck // the server ends it
	mustDo(t, stays, &nullCall) // the server knows that it is established
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	<-served
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
