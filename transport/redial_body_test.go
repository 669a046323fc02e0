package transport_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/redial"
	"github.com/stag-rdma/stag/transport/rpc"
)

// slowReader lets its peer wait with what it writes.
type slowReader struct{ net.Conn }

func (c slowReader) Read(p []byte) (int, error) {
	time.Sleep(50 * time.Microsecond)
	return c.Conn.Read(p)
}

// TestRedialBodies: calls that may run twice succeed, with the right octets, although their connections break while
// their Sends are being written; their memory comes back once, before Do returns.
func TestRedialBodies(t *testing.T) {
	cfg := testConfig()
	cfg.InlineRecv, cfg.InlineSend = 256<<10, 256<<10
	s := &transport.Server{Handler: newEcho(), Config: cfg}
	defer s.Close()
	var served sync.WaitGroup
	defer served.Wait()
	rnd, mu := rand.New(rand.NewPCG(1, 171)), sync.Mutex{}
	r, err := redial.New(&redial.Config{
		MinDelay: time.Millisecond, MaxDelay: 2 * time.Millisecond, Transmissions: -1,
		Dial: func(ctx context.Context) (redial.Conn, error) {
			a, b := rdmaptest.PipeSize(10_000)
			served.Go(func() { _ = s.ServeConn(slowReader{b}) })
			c, err := transport.NewClient(ctx, a, cfg)
			if err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			ends := []func(){a.Reset, func() { b.Close() }, func() { c.Abort(nil) }}
			time.AfterFunc(time.Duration(5+rnd.IntN(20))*time.Millisecond, ends[rnd.IntN(len(ends))])
			return c, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 8 {
				p := bytes.Repeat([]byte{byte(i + 1)}, bodySize)
				call := echoCall(p)
				call.Repeatable, call.Sink, call.MaxResults = true, make([]byte, len(p)), 64
				var freed atomic.Int32
				call.Free = func() { freed.Add(1) }
				var reply rpc.Reply
				if err := r.Do(testCtx(t), call, &reply); err != nil || !bytes.Equal(reply.Item, p) || freed.Load() != 1 {
					t.Errorf("%v, %d octets, freed %d times", err, len(reply.Item), freed.Load())
				}
				reply.Release()
				clear(p)
			}
		})
	}
	wg.Wait()
	if st := r.Stats(); st.Retransmits == 0 {
		t.Errorf("nothing was sent again: %+v", st)
	}
}
