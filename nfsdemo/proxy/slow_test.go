package proxy_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/proxy"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
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
		p := &proxy.Proxy{Dial: func(ctx context.Context, _ rpc.Handler) (proxy.Server, error) {
			a, b := net.Pipe()
			go io.Copy(io.Discard, b)
			return transport.NewStreamClient(ctx, a, nil)
		}}
		served := make(chan error)
		go func() { served <- p.ServeStream(front) }()
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

// TestServerEnds: whatever a server does that answers nothing, its client sees an end. One that is idle, or slow, stays.
func TestServerEnds(t *testing.T) {
	call, reply := record(message(7, false, nil)), record(message(7, true, nil))
	for _, x := range []struct {
		name   string
		server func(s net.Conn) // after it has read call 7
		ends   bool
	}{
		{"half a mark", func(s net.Conn) { s.Write(reply[:2]) }, true},
		{"half a record", func(s net.Conn) { s.Write(reply[:9]) }, true},
		{"the rest an octet a time", func(s net.Conn) {
			s.Write(record(make([]byte, 1<<20))[:100])
			for err := error(nil); err == nil; _, err = s.Write([]byte{0}) {
				time.Sleep(5 * time.Second)
			}
		}, true},
		{"fragments without end", func(s net.Conn) {
			for err := error(nil); err == nil; _, err = s.Write([]byte{0, 0, 0, 0}) {
				time.Sleep(time.Second)
			}
		}, true},
		{"answers to others", func(s net.Conn) {
			xid := uint32(8)
			for err := error(nil); err == nil; _, err = s.Write(record(message(xid, true, nil))) {
				time.Sleep(time.Second)
				xid++
			}
		}, true},
		{"an answer", func(s net.Conn) { s.Write(reply) }, false},
		{"a late answer, in pieces", func(s net.Conn) {
			time.Sleep(2 * time.Minute)
			for _, b := range reply {
				time.Sleep(time.Second)
				s.Write([]byte{b})
			}
		}, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				to, s := rdmaptest.Pipe()
				front := make(pipes, 1)
				p := &proxy.Proxy{Dial: func(ctx context.Context, _ rpc.Handler) (proxy.Server, error) {
					return transport.NewStreamClient(ctx, to, nil)
				}}
				served := make(chan error)
				go func() { served <- p.ServeStream(front) }()
				c, a := rdmaptest.Pipe()
				front <- a
				must(c.Write(call))(t)
				must(io.ReadFull(s, make([]byte, len(call))))(t)
				done := make(chan struct{})
				go func() {
					x.server(s)
					close(done)
				}()
				c.SetReadDeadline(time.Now().Add(time.Hour))
				begun := time.Now()
				got := nextRecord(c)
				if x.ends && (got != nil || time.Since(begun) > 4*time.Minute) || !x.ends && got == nil {
					t.Errorf("after %v: %x", time.Since(begun), got)
				}
				if !x.ends {
					if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Error(err)
					}
				}
				c.Close()
				s.Close()
				<-done
				close(front)
				<-served
				p.Close()
			})
		})
	}
}
