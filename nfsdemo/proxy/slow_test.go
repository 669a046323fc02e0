package proxy_test

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/proxy"
)

// pipes is a listener of connections that are there already.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error { return nil }

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestSilentServer: a client whose server does not answer sees an end, and is counted.
func TestSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		front := make(pipes, 1)
		p := &proxy.Proxy{Dial: func(context.Context) (net.Conn, error) {
			a, b := net.Pipe()
			go io.Copy(io.Discard, b)
			return a, nil
		}}
		served := make(chan error)
		go func() { served <- p.Serve(front) }()
		c, s := net.Pipe()
		front <- s
		must(c.Write(record(message(7, false, nil))))(t)
		c.SetReadDeadline(time.Now().Add(time.Hour))
		begun := time.Now()
		if _, err := c.Read(make([]byte, 1)); err != io.EOF || time.Since(begun) > 4*time.Minute {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
		close(front)
		<-served
		p.Close()
		if st := p.Stats(); st.Slow != 1 || st.Accepted != 1 {
			t.Errorf("%+v", st)
		}
	})
}
