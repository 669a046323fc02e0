//go:build unix

package accept

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
)

// script is a listener whose Accept returns these errors, one after the other; nil is a
// connection.
type script struct {
	net.Listener
	errs []error
}

func (s *script) Accept() (net.Conn, error) {
	err := s.errs[0]
	s.errs = s.errs[1:]
	if err != nil {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", err)}
	}
	return &net.TCPConn{}, nil
}

func TestNext(t *testing.T) {
	for _, tt := range []struct {
		name string
		errs []error
		want error
		wait time.Duration
	}{
		{"at once", []error{nil}, nil, 0},
		{"out of descriptors", []error{syscall.EMFILE, syscall.ENFILE, nil}, nil, 15 * time.Millisecond},
		{"ten times", []error{
			syscall.EMFILE, syscall.EMFILE, syscall.EMFILE, syscall.EMFILE, syscall.EMFILE,
			syscall.EMFILE, syscall.EMFILE, syscall.EMFILE, syscall.EMFILE, syscall.EMFILE, nil,
		}, nil, (5 + 10 + 20 + 40 + 80 + 160 + 320 + 640 + 1000 + 1000) * time.Millisecond},
		{"another error", []error{io.EOF}, io.EOF, 0},
		{"another error later", []error{syscall.EMFILE, net.ErrClosed}, net.ErrClosed, 5 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				c, err := Next(t.Context(), &script{errs: tt.errs})
				if !errors.Is(err, tt.want) || (c != nil) != (tt.want == nil) {
					t.Errorf("%v %v", c, err)
				}
				if got := time.Since(start); got != tt.wait {
					t.Errorf("waited %v, want %v", got, tt.wait)
				}
			})
		})
	}
}

// TestNextEnds: the end of ctx ends the wait, and a listener that is ready then is left alone.
func TestNextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := Next(ctx, &script{errs: []error{syscall.EMFILE, nil}}); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}
