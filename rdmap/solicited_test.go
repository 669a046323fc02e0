package rdmap_test

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"

	"github.com/stag-rdma/stag/internal/rdmaptest"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/internal/conntest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestWaitSolicited: messages without SE wake nobody who waits for an event. A message with SE does as long as it is not
// taken, and so does the end of the connection.
func TestWaitSolicited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := rdmaptest.Pipe()
		cfg := &rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.Ext7306}}
		x, y := conntest.Connect(t, a, b, cfg, cfg)
		var woken []int // number of messages when WaitSolicited returned
		end := make(chan error)
		go func() {
			for {
				if err := y.WaitSolicited(t.Context()); err != nil {
					end <- err
					return
				}
				n := 0
				for y.TryRecv() != nil {
					n++
				}
				woken = append(woken, n)
			}
		}()
		for _, op := range []verbs.Opcode{
			verbs.OpSend, verbs.OpImmediate, verbs.OpSendSE, verbs.OpSend, verbs.OpSend, verbs.OpImmediateSE, verbs.OpSendSE, verbs.OpImmediate,
		} {
			if err := x.Post([]verbs.WR{{Op: op, Head: make([]byte, 8)}}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if len(woken) != 3 || woken[0] != 3 || woken[1] != 3 || woken[2] != 1 {
			t.Errorf("messages at each event: %v", woken)
		}
		_ = x.Close()
		if err := <-end; !errors.Is(err, net.ErrClosed) {
			t.Errorf("ended with %v", err)
		}
		if y.TryRecv() == nil || y.TryRecv() != nil {
			t.Error("want the last message")
		}
	})
}
