package rdmap_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestSinkLost: the sink of a Read that waits for its turn is invalidated. The Read Request is not sent, the peer gets the
// Terminate of a local catastrophic error, and everybody on this side is told why (RFC 5040 Section 7.1).
func TestSinkLost(t *testing.T) {
	for _, tt := range []struct {
		name string
		wr   func(t *testing.T, x *rdmap.Conn) verbs.WR
	}{
		{"invalidated", func(t *testing.T, x *rdmap.Conn) verbs.WR {
			reg := MustRegister(t, x, 8, region.ReadSink)
			noErr(t, reg.Invalidate(t.Context()))
			return verbs.WR{Sink: reg.STag(), Len: 8}
		}},
		{"never there", func(*testing.T, *rdmap.Conn) verbs.WR { return verbs.WR{Sink: 0x100, Len: 1} }},
		{"no right", func(t *testing.T, x *rdmap.Conn) verbs.WR {
			return verbs.WR{Sink: MustRegister(t, x, 8, region.RemoteWrite).STag(), Len: 8}
		}},
		{"too short", func(t *testing.T, x *rdmap.Conn) verbs.WR {
			return verbs.WR{Sink: MustRegister(t, x, 8, region.ReadSink).STag(), SinkTO: 1, Len: 8}
		}},
	} {
		OnWires(t, func(t *testing.T, a, b net.Conn) {
			x, p := RawResponder(t, a, b, &rdmap.Config{Startup: rdmap.Startup{ORD: 1}})
			go x.Serve()
			first := MustRegister(t, x, 8, region.ReadSink)
			late := tt.wr(t, x)
			late.Op = verbs.OpReadRequest
			var w, ahead rdmap.Waiter
			w.Reset()
			ahead.Reset()
			late.Done = &w
			err := x.Post([]verbs.WR{
				{Op: verbs.OpReadRequest, Sink: first.STag(), Len: 8},
				{Op: verbs.OpSend, Head: []byte("ahead"), Done: &ahead},
				late,
				{Op: verbs.OpSend, Head: []byte("behind")},
			})
			noErr(t, err)
			for _, op := range []byte{0x41, 0x43} {
				if u, err := p.Next(); err != nil || u[1] != op {
					t.Fatalf("%x, %v", u, err)
				}
			}
			noErr(t, p.Send(rdmaptest.ReadResponse(t, first.STag(), 0)[:14+8]))
			if u, err := p.Next(); err != nil || !bytes.Equal(rdmaptest.FPDU(u), rdmaptest.Unhex(t, rdmaptest.Gold.TermLocal)) {
				t.Fatalf("%s: got %x, %v", tt.name, u, err)
			}
			if u, err := p.Next(); err != io.EOF {
				t.Fatalf("%s: then %x, %v", tt.name, u, err)
			}
			b.Close()
			<-x.Done()
			for i, err := range []error{x.Err(), x.Wait(t.Context(), &w)} {
				le, ok := errors.AsType[*verbs.LocalError](err)
				if !ok || le.Code != (verbs.TermCode{}) || !errors.Is(err, verbs.ErrSinkLost) {
					t.Errorf("%s, %d: %v", tt.name, i, err)
				}
			}
			if err := x.Wait(t.Context(), &ahead); err != nil {
				t.Errorf("%s: the work request before it: %v", tt.name, err)
			}
		})
	}
}

// TestTerminateSurvivesClose: the Terminate of a side that gives up and closes at once arrives, although octets of the peer
// are unread and more are in flight: that side half-closes and drains, where a plain close would reset the connection.
func TestTerminateSurvivesClose(t *testing.T) {
	code := verbs.TermCode{Layer: 0, EType: 2, Code: 8}
	OnWires(t, func(t *testing.T, a, b net.Conn) {
		x, p := RawResponder(t, a, b, &rdmap.Config{Receives: rdmap.Receives{Count: 1000}})
		var flood sync.WaitGroup
		started := make(chan struct{})
		flood.Go(func() {
			u := append(rdmaptest.Patch(t, rdmaptest.Gold.SendZero, 13, 1), make([]byte, 3000)...)
			for msn := byte(1); msn < 200; msn++ {
				u[13] = msn
				if p.Send(u) != nil {
					return
				}
				if msn == 5 {
					close(started)
				}
			}
		})
		<-started
		closed := make(chan error, 1)
		go func() {
			x.Terminate(code, rdmaptest.ErrTest)
			closed <- x.Close()
		}()
		u, err := p.Next()
		if want := rdmaptest.ULPDU(t, rdmaptest.WantTerminate(0x0208<<16, nil, false)); err != nil || !bytes.Equal(u, want) {
			t.Errorf("got %x, %v", u, err)
		}
		if u, err := p.Next(); err != io.EOF {
			t.Errorf("then %x, %v", u, err)
		}
		flood.Wait()
		b.Close()
		if le, ok := errors.AsType[*verbs.LocalError](<-closed); !ok || le.Code != code || !errors.Is(le, rdmaptest.ErrTest) {
			t.Errorf("Close: %v", le)
		}
	})
}
