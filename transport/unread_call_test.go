package transport_test

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

// TestUnreadCall: a call over TCP that the peer does not read ends a second after its context, and its connection with it,
// because half a record cannot be taken back.
func TestUnreadCall(t *testing.T) {
	for _, x := range []struct {
		name   string
		octets int
		ends   func(context.Context) (context.Context, context.CancelFunc)
	}{
		{"deadline", 8, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 3*time.Second)
		}},
		{"large, cancelled", 1 << 20, func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(3*time.Second, cancel)
			return ctx, cancel
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := net.Pipe()
				defer b.Close()
				c, err := transport.NewStreamClient(t.Context(), a, nil)
				noErr(t, err)
				defer c.Close()
				ctx, cancel := x.ends(t.Context())
				defer cancel()
				begun := time.Now()
				err = c.Do(ctx, &rpc.Call{Prog: testProg, Vers: testVers, Proc: procList, Args: make([]byte, x.octets)}, new(rpc.Reply))
				if took := time.Since(begun); took != 4*time.Second || !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, ctx.Err()) {
					t.Errorf("after %v: %v", took, err)
				}
				if !errors.Is(c.Err(), os.ErrDeadlineExceeded) {
					t.Errorf("the connection: %v", c.Err())
				}
			})
		})
	}
}
