package rdmap_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/internal/conntest"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestSinkLost: the sink of a Read that waits for its turn is invalidated. The Read Request is not sent, the peer gets the
// Terminate of a local catastrophic error, and everybody on this side is told why (RFC 5040 Section 7.1).
func TestSinkLost(t *testing.T) {
	for _, tt := range []struct {
		name string
		wr   func(t *testing.T, x *rdmap.Conn) verbs.WR
	}{
		{"invalidated", func(t *testing.T, x *rdmap.Conn) verbs.WR {
			reg := conntest.MustRegister(t, x, 8, region.ReadSink)
			if err := reg.Invalidate(t.Context()); err != nil {
				t.Fatal(err)
			}
			return verbs.WR{Sink: reg.STag(), Len: 8}
		}},
		{"never there", func(*testing.T, *rdmap.Conn) verbs.WR { return verbs.WR{Sink: 0x100, Len: 1} }},
		{"no right", func(t *testing.T, x *rdmap.Conn) verbs.WR {
			return verbs.WR{Sink: conntest.MustRegister(t, x, 8, region.RemoteWrite).STag(), Len: 8}
		}},
		{"too short", func(t *testing.T, x *rdmap.Conn) verbs.WR {
			return verbs.WR{Sink: conntest.MustRegister(t, x, 8, region.ReadSink).STag(), SinkTO: 1, Len: 8}
		}},
	} {
		conntest.OnWires(t, func(t *testing.T, a, b net.Conn) {
			x, p := conntest.RawResponder(t, a, b, &rdmap.Config{Startup: rdmap.Startup{ORD: 1}})
			go x.Serve()
			first := conntest.MustRegister(t, x, 8, region.ReadSink)
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
			if err != nil {
				t.Fatal(err)
			}
			for _, op := range []byte{0x41, 0x43} {
				if u, err := p.Next(); err != nil || u[1] != op {
					t.Fatalf("%x, %v", u, err)
				}
			}
			if err := p.Send(conntest.ReadResponse(t, first.STag(), 0)[:14+8]); err != nil {
				t.Fatal(err)
			}
			if u, err := p.Next(); err != nil || !bytes.Equal(conntest.FPDU(u), conntest.Unhex(t, conntest.GoldTermLocal)) {
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
	conntest.OnWires(t, func(t *testing.T, a, b net.Conn) {
		x, p := conntest.RawResponder(t, a, b, &rdmap.Config{Receives: rdmap.Receives{Count: 1000}})
		var flood sync.WaitGroup
		started := make(chan struct{})
		flood.Go(func() {
			u := append(conntest.Patch(t, conntest.GoldSendZero, 13, 1), make([]byte, 3000)...)
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
			x.Terminate(code, conntest.ErrTest)
			closed <- x.Close()
		}()
		u, err := p.Next()
		if want := conntest.ULPDU(t, conntest.WantTerminate(0x0208<<16, nil, false)); err != nil || !bytes.Equal(u, want) {
			t.Errorf("got %x, %v", u, err)
		}
		if u, err := p.Next(); err != io.EOF {
			t.Errorf("then %x, %v", u, err)
		}
		flood.Wait()
		b.Close()
		if le, ok := errors.AsType[*verbs.LocalError](<-closed); !ok || le.Code != code || !errors.Is(le, conntest.ErrTest) {
			t.Errorf("Close: %v", le)
		}
	})
}

// TestBothSidesTold: the same code and headers reach the upper layers of both ends.
func TestBothSidesTold(t *testing.T) {
	conntest.OnWires(t, func(t *testing.T, a, b net.Conn) {
		hx, hy := conntest.NewCollector(), conntest.NewCollector()
		x, y := conntest.Connect(t, a, b, &rdmap.Config{Handler: hx}, &rdmap.Config{Handler: hy})
		go y.Serve()
		if err := x.Send(t.Context(), nil); err != nil { // a bad first FPDU is not answered
			t.Fatal(err)
		}
		reg := conntest.MustRegister(t, y, 8, region.RemoteRead)
		err := x.Read(t.Context(), make([]byte, 9), reg.STag(), 3)
		conntest.Within(t, "the end", hx.Over)
		conntest.Within(t, "the other end", hy.Over)
		pe, ok := errors.AsType[*verbs.ProtocolError](hy.Closed)
		if !ok {
			t.Fatalf("the side that found the error: %v", hy.Closed)
		}
		for i, err := range []error{err, hx.Closed} {
			te, ok := errors.AsType[*verbs.TerminateError](err)
			if !ok {
				t.Fatalf("the side at fault, %d: %v", i, err)
			}
			told, got := pe.Terminate, te.Terminate
			if !bytes.Equal(got.Raw, told.Append(nil)) || got.Code != (verbs.TermCode{Layer: 0, EType: 1, Code: 1}) || got.SegLen != 46 ||
				!bytes.Equal(got.DDP, told.DDP) || len(got.DDP) != 18 || !bytes.Equal(got.Read, told.Read) || len(got.Read) != 28 {
				t.Errorf("%d: %+v\ntold %+v", i, got, told)
			}
		}
	})
}

// TestSiwTerminateLogged: if a Terminate may come from siw, the log has both readings, and the connection ends whatever they
// are.
func TestSiwTerminateLogged(t *testing.T) {
	for _, s := range conntest.SiwTerminates {
		core, logs := observer.New(zap.DebugLevel)
		a, b := rdmaptest.Pipe()
		x, p := conntest.RawResponder(t, a, b, &rdmap.Config{Logger: zap.New(core)})
		go x.Serve()
		u := append(conntest.ULPDU(t, conntest.Unhex(t, conntest.GoldTermLocal))[:18], conntest.Unhex(t, s.Octets)...)
		if err := p.Send(u); err != nil {
			t.Fatal(err)
		}
		b.Close()
		<-x.Done()
		var line string
		for _, l := range logs.FilterMessage("connection ends").All() {
			line, _ = l.ContextMap()["error"].(string)
		}
		te, ok := errors.AsType[*verbs.TerminateError](x.Err())
		if !ok || !strings.Contains(line, te.Terminate.Code.String()) || !strings.Contains(line, s.Want.String()) {
			t.Errorf("%s: %v\nlog %q", s.Octets, x.Err(), line)
		}
	}
}
