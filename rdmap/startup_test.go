package rdmap_test

import (
	"bytes"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/internal/conntest"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestRecvDuringHandshake: the initiator may be ready, and send, before the goroutine that runs the
// responder's Handshake has finished. A goroutine that receives there waits for that.
func TestRecvDuringHandshake(t *testing.T) {
	a, b := rdmaptest.Pipe()
	x, y := rdmap.Client(a, nil), rdmap.Server(b, nil)
	go y.Handshake(t.Context())
	got := make(chan error)
	go func() {
		_, err := y.Recv(t.Context())
		for ; errors.Is(err, verbs.ErrNoHandshake); _, err = y.Recv(t.Context()) {
			runtime.Gosched() // Handshake has not begun
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatal("Recv before there is a connection:", err)
	case <-time.After(time.Millisecond):
	}
	if err := x.Handshake(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := x.Send(t.Context(), []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
	x.Close()
	y.Close()
}

// TestDepthsClamped: each side reduces its depths to what the other offers (RFC 6581 Section 9.1), and no
// more requests than that are ever in flight.
func TestDepthsClamped(t *testing.T) {
	depths := []int{-1, 1, 5, 64, 0x3ffe}
	known := func(v int) int { return max(v, 0) }
	for _, ird := range depths {
		for _, ord := range depths {
			a, b := rdmaptest.Pipe()
			x, y := conntest.Connect(t, a, b, &rdmap.Config{Startup: rdmap.Startup{IRD: ird, ORD: ord}}, &rdmap.Config{Startup: rdmap.Startup{IRD: 5, ORD: 7}})
			sx, sy := x.ConnectionState(), y.ConnectionState()
			if sx.IRD != known(ird) || sy.ORD != min(7, known(ird)) || sy.IRD != min(5, known(ord)) || sx.ORD != min(5, known(ord)) {
				t.Errorf("IRD %d, ORD %d: %+v\n%+v", ird, ord, sx, sy)
			}
		}
	}
	a, b := rdmaptest.Pipe()
	x := rdmap.Client(a, &rdmap.Config{Startup: rdmap.Startup{ORD: 9}})
	go x.Handshake(t.Context())
	p, _, err := rdmaptest.Respond(b, &mpa.Config{IRD: 3, ORD: 8}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for !x.ConnectionState().HandshakeComplete {
		time.Sleep(time.Millisecond)
	}
	reg := conntest.MustRegister(t, x, 16, region.ReadSink)
	for range 10 {
		if err := x.Post([]verbs.WR{{Op: verbs.OpReadRequest, Sink: reg.STag(), Len: 16}}); err != nil {
			t.Fatal(err)
		}
	}
	for out, answered := 0, 0; answered < 10; answered++ {
		for ; out < min(answered+3, 10); out++ {
			if u, err := p.Next(); err != nil || u[1] != 0x41 {
				t.Fatalf("%x, %v", u, err)
			}
		}
		n := x.Stats().ReadsOut
		for i := 0; n < uint64(out) && i < 10_000; i++ { // counted after the peer may have read them
			time.Sleep(time.Millisecond)
			n = x.Stats().ReadsOut
		}
		if n != uint64(out) {
			t.Errorf("%d Reads sent, %d answered, ORD is 3", n, answered)
		}
		if err := p.Send(conntest.ReadResponse(t, reg.STag(), 0)); err != nil {
			t.Fatal(err)
		}
	}
	x.Abort(nil)
	<-x.Done()
	b.Close()
}

// TestMissingMarkers: a peer that ignores our M is noticed at once.
func TestMissingMarkers(t *testing.T) {
	a, b := rdmaptest.Pipe()
	x := rdmap.Client(a, &rdmap.Config{Startup: rdmap.Startup{Markers: true}, Receives: rdmap.Receives{Count: 4}})
	errs := make(chan error, 1)
	go func() { errs <- x.Handshake(t.Context()) }()
	if _, _, err := rdmaptest.Respond(b, &mpa.Config{IRD: 8, ORD: 8, Markers: true}, nil); err != nil {
		t.Fatal(err)
	}
	if err := <-errs; err != nil {
		t.Fatal(err)
	}
	if _, err := b.Write(conntest.Unhex(t, conntest.GoldSend)); err != nil {
		t.Fatal(err)
	}
	b.CloseWrite() // what is missing never comes
	if got := conntest.Everything(t, b); len(got) > 0 && !bytes.Equal(got, conntest.WantTerminate(0x2002<<16, nil, false)) {
		t.Errorf("%x", got)
	}
	b.Close()
	<-x.Done()
	if x.Err() == nil || x.Stats().MessagesIn[verbs.OpSend] != 0 {
		t.Error(x.Err())
	}
}
