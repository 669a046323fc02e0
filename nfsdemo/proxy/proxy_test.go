package proxy_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/proxy"
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
	c.SetDeadline(time.Now().Add(10 * time.Second))
	return c
}

// TestEnds: whichever side goes, the other one sees it.
func TestEnds(t *testing.T) {
	back, front := listen(t), listen(t)
	p := &proxy.Proxy{Dial: func(context.Context) (net.Conn, error) { return net.Dial("tcp", back.Addr().String()) }}
	served := make(chan error, 1)
	go func() { served <- p.Serve(front) }()
	for _, first := range []string{"client", "server", "proxy"} {
		c := dial(t, front)
		s := must(back.Accept())(t)
		s.SetDeadline(time.Now().Add(10 * time.Second))
		must(c.Write([]byte("x")))(t)
		must(io.ReadFull(s, make([]byte, 1)))(t)
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
		if _, err := other.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after the %s's end: %v", first, err)
		}
		s.Close()
	}
	if err := <-served; !errors.Is(err, proxy.ErrClosed) {
		t.Errorf("Serve: %v", err)
	}
	if err := p.Serve(listen(t)); !errors.Is(err, proxy.ErrClosed) {
		t.Errorf("Serve after Close: %v", err)
	}
}

// TestUnreachable: a client of a server that is down is counted.
func TestUnreachable(t *testing.T) {
	down := errors.New("down")
	front := listen(t)
	p := &proxy.Proxy{Dial: func(context.Context) (net.Conn, error) { return nil, down }}
	go p.Serve(front)
	c := dial(t, front)
	if _, err := c.Write([]byte("GET / HTTP/1.0\r\n\r\n")); err != nil { // not a call: it is disconnected
		t.Error(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read: %v", err)
	}
	p.Close()
	if st := p.Stats(); st.Accepted != 1 || st.Failed != 1 {
		t.Errorf("%+v", st)
	}
}

// TestCloseWhileDialing: Close does not wait for a server that does not answer.
func TestCloseWhileDialing(t *testing.T) {
	front := listen(t)
	begun := make(chan struct{})
	p := &proxy.Proxy{DialTimeout: time.Minute, Dial: func(ctx context.Context) (net.Conn, error) {
		close(begun)
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	go p.Serve(front)
	dial(t, front)
	<-begun
	closed := make(chan struct{})
	go func() { p.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
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
