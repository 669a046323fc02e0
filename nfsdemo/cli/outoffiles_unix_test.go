//go:build unix

package cli

import (
	"errors"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/proxy"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/transport/rpc"
)

// starved is a listener of a process that is out of descriptors, once.
type starved struct {
	accepts int
	again   chan struct{} // closed with the second Accept
	closed  chan struct{}
	close   func()
}

func newStarved() *starved {
	l := &starved{again: make(chan struct{}), closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	return l
}

func (l *starved) Accept() (net.Conn, error) {
	if l.accepts++; l.accepts == 1 {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	close(l.again)
	<-l.closed
	return nil, net.ErrClosed
}

func (l *starved) Close() error { l.close(); return nil }

func (l *starved) Addr() net.Addr { return &net.TCPAddr{} }

// TestOutOfFiles: whoever connects often enough to one listener of a process does not end the
// others.
func TestOutOfFiles(t *testing.T) {
	nothing := rpc.HandlerFunc(nil)
	for name, serve := range map[string]func(l net.Listener) (errc <-chan error, end func() error){
		"RDMA": func(l net.Listener) (<-chan error, func() error) {
			s := &transport.Server{Handler: nothing}
			return serving(s.Serve, l), s.Close
		},
		"TCP": func(l net.Listener) (<-chan error, func() error) {
			s := &transport.Server{Handler: nothing}
			return serving(s.ServeStream, l), s.Close
		},
		"RDMA as a listener": func(l net.Listener) (<-chan error, func() error) {
			rl := must(transport.NewListener(l, nil))(t)
			return serving(func(l net.Listener) error { _, err := l.Accept(); return err }, rl), rl.Close
		},
		"push": func(l net.Listener) (<-chan error, func() error) {
			s := new(push.Server)
			return serving(s.Serve, l), func() error { return s.Close(t.Context()) }
		},
		"replies": func(l net.Listener) (<-chan error, func() error) {
			p := &replies.Pusher{Handler: nothing}
			return serving(p.Serve, l), p.Close
		},
		"proxy": func(l net.Listener) (<-chan error, func() error) {
			p := new(proxy.Proxy)
			return serving(p.Serve, l), p.Close
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newStarved()
			errc, end := serve(l)
			select {
			case <-l.again:
			case err := <-errc:
				t.Errorf("it has ended: %v", err)
			}
			if err := errors.Join(end(), l.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// serving serves l until it is closed.
func serving(serve func(net.Listener) error, l net.Listener) <-chan error {
	errc := make(chan error, 1)
	go func() { errc <- serve(l) }()
	return errc
}

// TestAllowEverywhere: who is not allowed is served by no listener. (NFS/RDMA tells him so, by
// MPA: transport.TestAllow.)
func TestAllowEverywhere(t *testing.T) {
	cfg := &serviceConfig{
		exports: one(t.TempDir()), rdma: "127.0.0.1:0", tcp: "127.0.0.1:0", mount: "127.0.0.1:0", replies: "127.0.0.1:0",
		push:   pushConfig{dir: t.TempDir()},
		config: &transport.Config{Limits: transport.Limits{Allow: func(net.Addr) bool { return false }}},
	}
	s := started(t, cfg)
	for name, addr := range map[string]string{
		"NFS/TCP": addrOf(s.tcp), "MOUNT": addrOf(s.mount), "replies": s.reply.addr(), "push": s.push.addr(),
	} {
		c := must(net.Dial("tcp", addr))(t)
		_ = c.SetDeadline(time.Now().Add(2 * time.Second)) // less than start-ups may take
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %d octets, %v", name, n, err)
		}
		c.Close()
	}
}

// TestFewDescriptors: with few descriptors no client's part of the connections takes all of them.
func TestFewDescriptors(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("how many there are is not known here")
	}
	var was syscall.Rlimit
	check(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was))
	defer func() { check(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was)) }()
	for _, x := range []struct {
		descriptors uint64
		asked, want int
	}{{1024, 0, 341}, {1024, 900, 900}, {4096, 0, 0}} {
		lim := was
		lim.Cur = x.descriptors
		check(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lim))
		cfg := &transport.Config{}
		check(t, (&limitFlags{conns: x.asked}).apply(cfg))
		if cfg.Limits.Conns != x.want {
			t.Errorf("%+v: %d", x, cfg.Limits.Conns)
		}
	}
}
