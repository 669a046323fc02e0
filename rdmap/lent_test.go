//go:build race || invariants

package rdmap_test

import (
	"net"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestEndGivesBack: a connection that ends inside an FPDU, inside a batch that cannot be written, or
// both, gives back the memory that it has borrowed.
func TestEndGivesBack(t *testing.T) {
	for _, end := range []func(x *rdmap.Conn, b net.Conn){
		func(x *rdmap.Conn, _ net.Conn) { x.Abort(nil) },
		func(_ *rdmap.Conn, b net.Conn) { b.Close() },
		func(x *rdmap.Conn, b net.Conn) { x.Terminate(verbs.TermCode{}, nil); b.Close() },
	} {
		OnWires(t, func(t *testing.T, a, b net.Conn) {
			before := buf.Outstanding() // engines without a Conn are never ended
			x, p := RawResponder(t, a, b, &rdmap.Config{Timeouts: rdmap.Timeouts{Write: 100 * time.Millisecond}})
			if _, err := p.Conn.Write(rdmaptest.Unhex(t, rdmaptest.Gold.Send)[:20]); err != nil {
				t.Fatal(err)
			}
			go x.Serve()
			for x.Stats().Staging == 0 {
				time.Sleep(time.Millisecond)
			}
			for range 100 {
				if x.Post([]verbs.WR{{Op: verbs.OpWrite, Body: make([]byte, 100_000)}, {Op: verbs.OpSend, Head: make([]byte, 900)}}) != nil {
					break
				}
			}
			end(x, b)
			<-x.Done()
			backTo(t, before)
		})
	}
	// A responder that has never been allowed to send.
	before := buf.Outstanding()
	a, b := rdmaptest.Pipe()
	_, y := rawInitiator(t, a, b, nil)
	noErr(t, y.Post([]verbs.WR{{Op: verbs.OpSend, Head: make([]byte, 900)}}))
	y.Abort(nil)
	<-y.Done()
	backTo(t, before)
}

// TestReplayGivesBack: upcalls of Sends that were put off give back what they have borrowed, if they lose the role.
func TestReplayGivesBack(t *testing.T) {
	OnWires(t, func(t *testing.T, a, b net.Conn) {
		before := buf.Outstanding()
		takenOverStalled(t, a, b)
		backTo(t, before)
	})
}

func backTo(t *testing.T, before int64) {
	t.Helper()
	for end := time.Now().Add(time.Minute); buf.Outstanding() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d stagings or chunks not given back", buf.Outstanding()-before)
		}
	}
}
