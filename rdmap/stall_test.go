package rdmap_test

import (
	"bytes"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestPoolEmptyForLong: when no more can be put off, the whole stream waits. The wait ends with a Terminate for "no
// buffer".
func TestPoolEmptyForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := rdmaptest.Pipe()
		pool := rdmap.NewPool(20000)
		hog, _ := pool.Mem().Get(20000)
		h := rdmaptest.NewCollector()
		x, y := rdmaptest.Connect(t, a, b,
			&rdmap.Config{Handler: h, Receives: rdmap.Receives{Pool: pool, Size: 20000, Count: 1000}, Timeouts: rdmap.Timeouts{Memory: 30 * time.Second}},
			&rdmap.Config{Startup: rdmap.Startup{MULPDU: 1000}})
		noErr(t, x.Send(t.Context(), nil))
		go y.Serve()
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				if err := y.Send(t.Context(), make([]byte, 9000)); err != nil {
					return
				}
			}
		})
		start := time.Now()
		<-h.Over
		if d := time.Since(start); d < 30*time.Second || d > time.Minute {
			t.Errorf("ended after %v", d)
		}
		pe, ok := errors.AsType[*verbs.ProtocolError](h.Closed)
		if !ok || pe.Code != (verbs.TermCode{Layer: 1, EType: 2, Code: 2}) {
			t.Fatalf("ended with %v", h.Closed)
		}
		<-y.Done()
		te, ok := errors.AsType[*verbs.TerminateError](y.Err())
		if !ok || te.Terminate.Code != pe.Code {
			t.Fatalf("the peer ended with %v", y.Err())
		}
		wg.Wait()
		<-x.Done()
		pool.Mem().Put(hog)
		if n := pool.Used(); n != 0 {
			t.Fatalf("%d octets of the pool in use", n)
		}
	})
}

// TestStallEnds: a connection that waits for memory until Timeouts.Memory is over ends, even if no input arrives in that
// time, whoever reads.
func TestStallEnds(t *testing.T) {
	for _, serve := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			pool := rdmap.NewPool(rdmap.DefaultRecvSize)
			if _, ok := pool.Mem().Get(rdmap.DefaultRecvSize); !ok {
				t.Fatal("no memory")
			}
			a, b := rdmaptest.Pipe()
			p, y := rawInitiator(t, a, b, &rdmap.Config{Receives: rdmap.Receives{Pool: pool}, Timeouts: rdmap.Timeouts{Memory: 10 * time.Second}})
			if serve {
				go y.Serve()
			}
			from := time.Now()
			u := sendPart(t, 0, 1)
			noErr(t, p.Send(u))
			a.SetReadDeadline(from.Add(time.Minute))
			got, err := p.Next()
			if want := rdmaptest.ULPDU(t, rdmaptest.WantTerminate(0x1202<<16|rdmaptest.WithHdr, u, false)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("Serve %v: %x, %v", serve, got, err)
			}
			if d := time.Since(from); d < 10*time.Second || d > 11*time.Second { // it may be read at the next tick
				t.Errorf("Serve %v: after %v", serve, d)
			}
			a.Close()
			<-y.Done()
		})
	}
}

// TestStallTakenOver: if an upcall of a Send that was put off loses the role, whoever takes over goes on with the next one.
func TestStallTakenOver(t *testing.T) { OnWires(t, takenOverStalled) }

// handsOff is a Handler that passes on the reading role in every upcall.
type handsOff struct{ n atomic.Int64 }

func (h *handsOff) HandleRecv(c *rdmap.Conn, _ *verbs.Message) {
	c.HandOff()
	c.PostRecv(1)
	h.n.Add(1)
}

func (*handsOff) HandleClose(*rdmap.Conn, error) {}

func takenOverStalled(t *testing.T, a, b net.Conn) {
	pool, h := rdmap.NewPool(20000), new(handsOff)
	hog, _ := pool.Mem().Get(20000)
	x, y := rdmaptest.Connect(t, a, b, &rdmap.Config{Handler: h, Receives: rdmap.Receives{Pool: pool, Size: 20000}}, &rdmap.Config{Startup: rdmap.Startup{MULPDU: 1000}})
	go y.Serve()
	if err := x.Send(t.Context(), nil); err != nil { // opens the stream
		t.Fatal(err)
	}
	for range 5 {
		noErr(t, y.Send(t.Context(), make([]byte, 3000)))
	}
	for x.Stats().RecvStalls == 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(10 * time.Millisecond) // everything has arrived
	pool.Mem().Put(hog)
	for end := time.Now().Add(10 * time.Second); h.n.Load() < 5; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d messages of 5", h.n.Load())
		}
	}
	go x.Close()
	y.Close()
	<-x.Done()
}
