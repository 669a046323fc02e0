package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/proxy"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	return l
}

func dial(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c := must(net.Dial("tcp", l.Addr().String()))(t)
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

// accept takes the next connection of l, which has a minute.
func accept(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c := must(l.Accept())(t)
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

// server dials the TCP server behind l.
func server(l net.Listener) func(context.Context, rpc.Handler) (proxy.Server, error) {
	return func(ctx context.Context, _ rpc.Handler) (proxy.Server, error) {
		return transport.DialStream(ctx, "tcp", l.Addr().String(), nil)
	}
}

// TestEnds: whichever side goes, the other one sees it. A client has a connection to the server from its first call on.
func TestEnds(t *testing.T) {
	back, front := listen(t), listen(t)
	p := &proxy.Proxy{Dial: server(back)}
	served := make(chan error, 1)
	go func() { served <- p.ServeStream(front) }()
	for _, first := range []string{"client", "server", "proxy"} {
		c := dial(t, front)
		must(c.Write(record(message(7, false, nil))))(t)
		s := accept(t, back)
		if got := nextRecord(s); !bytes.Equal(got, message(7, false, nil)) {
			t.Errorf("%x", got)
		}
		if first != "proxy" {
			must(s.Write(record(message(7, true, nil))))(t)
			if got := nextRecord(c); !bytes.Equal(got, message(7, true, nil)) {
				t.Errorf("%x", got)
			}
		}
		other := s
		switch first {
		case "client":
			c.Close()
		case "server":
			s.Close()
			other = c
		case "proxy":
			p.Close()
		}
		if _, err := other.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after the %s's end: %v", first, err)
		}
		s.Close()
	}
	if err := <-served; !errors.Is(err, transport.ErrServerClosed) {
		t.Errorf("Serve: %v", err)
	}
	if err := p.Serve(listen(t)); !errors.Is(err, transport.ErrServerClosed) {
		t.Errorf("Serve after Close: %v", err)
	}
}

// TestCloseWhileDialing: Close does not wait for a server that does not answer.
func TestCloseWhileDialing(t *testing.T) {
	front := listen(t)
	begun := make(chan struct{})
	p := &proxy.Proxy{DialTimeout: time.Minute, Dial: func(ctx context.Context, _ rpc.Handler) (proxy.Server, error) {
		close(begun)
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	go p.ServeStream(front)
	must(dial(t, front).Write(record(message(7, false, nil))))(t)
	<-begun
	closed := make(chan struct{})
	go func() { p.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Error("Close waits")
	}
}

// must returns v, unless err ends the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		noErr(t, err)
		return v
	}
}

// noErr ends the test if err is an error.
func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
