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
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func dial(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
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
		s, err := back.Accept()
		if err != nil {
			t.Fatal(err)
		}
		s.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(s, make([]byte, 1)); err != nil {
			t.Fatal(err)
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
