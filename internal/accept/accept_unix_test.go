//go:build unix

package accept_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/internal/accept"
)

// script is a listener whose Accept returns these errors, one after the other; nil is a
// connection. After them it is closed.
type script struct {
	net.Listener
	errs []error
}

func (s *script) Accept() (net.Conn, error) {
	err := net.ErrClosed
	if len(s.errs) > 0 {
		err, s.errs = s.errs[0], s.errs[1:]
	}
	if err != nil {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", err)}
	}
	return &net.TCPConn{}, nil
}

func TestServe(t *testing.T) {
	full := []error{
		syscall.EMFILE, syscall.EMFILE, syscall.EMFILE, syscall.EMFILE, syscall.EMFILE,
		syscall.EMFILE, syscall.EMFILE, syscall.EMFILE, syscall.EMFILE, syscall.EMFILE, nil,
	}
	for _, tt := range []struct {
		name  string
		errs  []error
		conns int
		want  error
		wait  time.Duration
	}{
		{"two connections", []error{nil, nil}, 2, net.ErrClosed, 0},
		{"out of descriptors", []error{syscall.EMFILE, syscall.ENFILE, nil}, 1, net.ErrClosed, 15 * time.Millisecond},
		{"ten times", full, 1, net.ErrClosed, (5 + 10 + 20 + 40 + 80 + 160 + 320 + 640 + 1000 + 1000) * time.Millisecond},
		{"out of descriptors again", []error{syscall.EMFILE, nil, syscall.EMFILE, nil}, 2, net.ErrClosed, 10 * time.Millisecond},
		{"another error", []error{nil, io.EOF, nil}, 1, io.EOF, 0},
		{"another error later", []error{syscall.EMFILE, io.EOF}, 0, io.EOF, 5 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, conns := time.Now(), 0
				err := accept.Serve(t.Context(), &script{errs: tt.errs}, func(net.Conn) { conns++ })
				if !errors.Is(err, tt.want) || conns != tt.conns {
					t.Errorf("%d connections, %v", conns, err)
				}
				if got := time.Since(start); got != tt.wait {
					t.Errorf("waited %v, want %v", got, tt.wait)
				}
			})
		})
	}
}

// TestServeEnds: the end of ctx ends the wait, and a connection that is ready then is left alone.
func TestServeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		l := &script{errs: []error{syscall.EMFILE, nil}}
		if err := accept.Serve(ctx, l, func(net.Conn) { t.Error("a connection") }); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}
