package transport_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// TestHalfSends: peers that send half of the largest inline call and then nothing, or an octet now and then, keep a large
// inline call of another client waiting for no longer than it takes to see how slow they are. Some said that they send
// little, so that others were promised what they hold.
func TestHalfSends(t *testing.T) {
	for name, tt := range map[string]halfSend{
		"as announced":        {says: 64 << 10, inline: 64 << 10, credits: 1, memory: 8 << 20},
		"more than announced": {says: 1 << 10, inline: 256 << 10, credits: 64, memory: transport.DefaultMemory},
	} {
		for _, tt.trickle = range []bool{false, true} {
			t.Run(name, func(t *testing.T) { synctest.Test(t, tt.run) })
		}
	}
}

type halfSend struct {
	says, inline, credits int
	memory                int64
	trickle               bool
}

func (tt *halfSend) run(t *testing.T) {
	cfg := unwatched(testConfig())
	cfg.InlineRecv, cfg.Credits, cfg.Limits.Memory, cfg.MaxPayload = tt.inline, tt.credits, tt.memory, 512<<10
	cfg.Limits.PerClient.Conns = -1
	s := newServer(t, newEcho(), cfg)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer func() {
		cancel()
		s.Close()
		wg.Wait()
	}()
	a, b := rdmaptest.Pipe()
	wg.Go(func() { _ = s.ServeConn(&from{b, tcpAddr("192.0.2.200")}) })
	own := testConfig()
	own.InlineSend = tt.inline
	c, err := transport.NewClient(ctx, a, own)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	n, _ := c.Inline()
	for i := range 400 {
		a, b := rdmaptest.Pipe()
		wg.Go(func() { _ = s.ServeConn(&from{b, tcpAddr("192.0.2.1")}) }) // ends as the test wants
		private := rpcrdma.PrivateData{SendSize: tt.says, RecvSize: 4096}.Append(nil)
		p, _, err := rdmaptest.Initiate(a, &mpa.Config{IRD: 8, ORD: 8, PrivateData: private})
		if err != nil {
			t.Fatal(err)
		}
		send := append([]byte{0x01, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}, make([]byte, 60_000)...)
		if tt.says < tt.inline || i%2 == 0 {
			_ = p.Send(send) // the server may have ended the connection
		} else {
			_, _ = a.Write(p.Frame(send)[:30_000])
		}
		context.AfterFunc(ctx, func() { a.Close() })
		if tt.trickle {
			wg.Go(func() {
				for ; ctx.Err() == nil; time.Sleep(300 * time.Millisecond) {
					if _, err := a.Write([]byte{0}); err != nil {
						return
					}
				}
			})
		}
	}
	synctest.Wait()
	time.Sleep(time.Second)
	start := time.Now()
	var r rpc.Reply
	err = c.Do(ctx, &rpc.Call{Prog: testProg, Vers: testVers, Proc: procSum, Args: xdr.AppendOpaque(nil, filled(n-1000))}, &r)
	if err != nil {
		t.Error(err)
	}
	r.Release()
	if d := time.Since(start); d > 1500*time.Millisecond {
		t.Errorf("a call of %d octets waited for %v", n, d)
	}
}
