package rdmap_test

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestBothAnswerAtOnce: two sides whose readers answer each other's long Reads, over a stream with a small buffer, do not
// wait for each other: a reader never waits for room.
func TestBothAnswerAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := rdmaptest.PipeSize(2000)
		x, y := rdmaptest.Connect(t, a, b, nil, nil)
		if err := x.Send(t.Context(), nil); err != nil { // opens the stream
			t.Fatal(err)
		}
		if _, err := y.Recv(t.Context()); err != nil {
			t.Fatal(err)
		}
		const size = 1 << 20
		var wg sync.WaitGroup
		for _, c := range []struct{ from, to *rdmap.Conn }{{x, y}, {y, x}} {
			go c.from.Serve()
			reg := MustRegister(t, c.from, size, region.RemoteRead)
			wg.Go(func() {
				if err := c.to.Read(t.Context(), make([]byte, size), reg.STag(), 0); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
}

// TestPeerDoesNotRead: if a peer stops reading, the send queue fills and accepts nothing more, and after WriteTimeout the
// connection ends. ADVERSARY 8, 20.
func TestPeerDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := rdmaptest.PipeSize(1000)
		x, _ := RawResponder(t, a, b, &rdmap.Config{SendQueue: 64 << 10, Timeouts: rdmap.Timeouts{Write: time.Minute}})
		start := time.Now()
		errs := make(chan error, 2)
		go func() { errs <- x.Write(t.Context(), make([]byte, 1<<20), 1, 0) }()
		time.Sleep(time.Second)
		go func() {
			for {
				err := x.Post([]verbs.WR{{Op: verbs.OpSend, Head: make([]byte, 1000)}})
				if err != nil {
					errs <- err
					return
				}
			}
		}()
		if err := <-errs; err != verbs.ErrSendQueueFull {
			t.Fatalf("full queue: %v", err)
		}
		err := <-errs
		if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.Is(err, net.ErrClosed) {
			t.Fatalf("write: %v", err)
		}
		if d := time.Since(start); d < time.Minute || d > 2*time.Minute {
			t.Fatalf("the connection ended after %v", d)
		}
		<-x.Done()
	})
}

// TestCloseWhileFull: Close does not wait for ever if the socket is full.
func TestCloseWhileFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := rdmaptest.PipeSize(1000)
		x, _ := RawResponder(t, a, b, &rdmap.Config{Timeouts: rdmap.Timeouts{Close: 2 * time.Second}})
		errs := make(chan error, 1)
		go func() { errs <- x.Write(t.Context(), make([]byte, 1<<20), 1, 0) }()
		time.Sleep(time.Second)
		start := time.Now()
		x.Close()
		if d := time.Since(start); d > 6*time.Second {
			t.Fatalf("Close took %v", d)
		}
		if err := <-errs; !errors.Is(err, net.ErrClosed) {
			t.Fatal(err)
		}
	})
}

// TestSendWaitsForRoom: the blocking calls wait for room if Post fails.
func TestSendWaitsForRoom(t *testing.T) {
	OnWires(t, func(t *testing.T, a, b net.Conn) {
		h := rdmaptest.NewCollector()
		h.Got = make(chan struct{}, 10000)
		x, y := rdmaptest.Connect(t, a, b, &rdmap.Config{SendQueue: 5000}, &rdmap.Config{Handler: h, Receives: rdmap.Receives{Count: 1000}})
		go y.Serve()
		errs := make(chan error, 8)
		for range cap(errs) {
			go func() {
				for range 50 {
					if err := x.Send(t.Context(), make([]byte, 3000)); err != nil {
						errs <- err
						return
					}
				}
				errs <- nil
			}()
		}
		for range cap(errs) {
			noErr(t, <-errs)
		}
		for range cap(errs) * 50 {
			Within(t, "a message", h.Got)
		}
	})
}

// TestCancelWrites: a cancelled Write returns when its payload is no longer used.
func TestCancelWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := rdmaptest.PipeSize(1000)
		x, p := RawResponder(t, a, b, nil)
		first := make(chan error, 1)
		go func() { first <- x.Write(t.Context(), make([]byte, 100000), 1, 0) }()
		time.Sleep(time.Second)
		second := make(chan error, 1)
		ctx, cancel := Cancellable(t)
		go func() { second <- x.Write(ctx, make([]byte, 100000), 1, 0) }()
		time.Sleep(time.Second)
		cancel()
		if err := <-second; !errors.Is(err, ctx.Err()) {
			t.Fatalf("second: %v", err)
		}
		for n := 0; ; n++ {
			u := must(p.Next())(t)
			if u[0]&0x40 != 0 {
				break
			}
		}
		noErr(t, <-first)
	})
}

// TestPartialFPDUTold: what is told of a peer that sends an octet now and then is what is held for it.
func TestPartialFPDUTold(t *testing.T) {
	t.Parallel()
	for _, serve := range []bool{true, false} {
		OnWires(t, func(t *testing.T, a, b net.Conn) {
			var told atomic.Int64
			cfg := &rdmap.Config{Receives: rdmap.Receives{Count: 4}, PartialFPDU: func(n int) { told.Store(int64(n)) }}
			p, y := rawInitiator(t, a, b, cfg)
			if serve {
				go y.Serve()
			}
			fpdu := p.Frame(append(rdmaptest.Patch(t, rdmaptest.Gold.Send, 0), make([]byte, 3000)...))
			sent := 20
			if _, err := p.Conn.Write(fpdu[:sent]); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(time.Minute); told.Load() == 0 || told.Load() > buf.Small; sent++ {
				if time.Now().After(deadline) || sent == len(fpdu)-1 {
					t.Fatalf("%d octets told, %d held, Serve %v", told.Load(), y.Stats().Staging, serve)
				}
				if _, err := p.Conn.Write(fpdu[sent : sent+1]); err != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Millisecond)
			}
			a.Close()
			<-y.Done()
			if told.Load() != 0 {
				t.Errorf("%d octets told at the end", told.Load())
			}
		})
	}
}
