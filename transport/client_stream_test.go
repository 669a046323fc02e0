package transport_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// writesCounted counts the writes of a connection.
type writesCounted struct {
	net.Conn
	writes atomic.Int32
}

func (c *writesCounted) Write(p []byte) (int, error) {
	if len(p) > 0 {
		c.writes.Add(1)
	}
	return c.Conn.Write(p)
}

// Calls that are ready together leave in one write, and so do replies; one by one they would be 16. A write has the first
// record, another one all that joined it. When the first comes alone, as it mostly does, it has a write for itself.
func TestSharedWrites(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that they are ready together, and not one on each processor
	const calls = 16
	var come atomic.Int32
	var all atomic.Pointer[chan struct{}]
	cfg := &transport.Config{Reading: transport.Reading{HandlerLimit: -1}}
	s := &transport.Server{Config: cfg, Handler: rpc.HandlerFunc(func(_ context.Context, req *rpc.Request, resp *rpc.Response) {
		ch := *all.Load()
		if come.Add(1) == calls {
			close(ch)
		}
		<-ch
		resp.Results = append(resp.Results, req.Args...)
	})}
	a, b := rdmaptest.Pipe()
	left, right := &writesCounted{Conn: a}, &writesCounted{Conn: b}
	served := make(chan error, 1)
	go func() { served <- s.ServeStreamConn(right) }()
	c := must(transport.NewStreamClient(t.Context(), left, nil))(t)
	client, server := false, false
	for round := 0; !client || !server; round++ {
		if round == 1000 {
			t.Fatalf("in no round: shared by the client %v, by the server %v", client, server)
		}
		ch := make(chan struct{})
		all.Store(&ch)
		come.Store(0)
		left.writes.Store(0)
		right.writes.Store(0)
		var wg sync.WaitGroup
		for i := range calls {
			wg.Go(func() {
				arg := xdr.AppendUint32(nil, uint32(i))
				var r rpc.Reply
				defer r.Release()
				if err := c.Do(t.Context(), &rpc.Call{Prog: 1, Vers: 1, Proc: 1, Args: arg}, &r); err != nil || !bytes.Equal(r.Results, arg) {
					t.Errorf("call %d: %v, %x", i, err, r.Results)
				}
			})
		}
		wg.Wait()
		client = client || left.writes.Load() <= 4
		server = server || right.writes.Load() <= 4
	}
	c.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// A call above MaxPayload is not sent.
func TestStreamTooBig(t *testing.T) {
	cfg := &transport.Config{MaxPayload: 4096}
	_, addr := served(t, overTCP, newEcho(), cfg)
	c := dialStream(t, addr, cfg)
	if e, ok := errors.AsType[*rpc.RPCError](try(t, c, echoCall(make([]byte, 4096)))); !ok || e.Reason != rpc.ReasonTooBig {
		t.Errorf("call above MaxPayload: %v", e)
	}
	mustDo(t, c, &nullCall)
}

// A reply that nobody has asked for is not counted against those that EnableRDMA waits for: it would wait for ever.
func TestStreamStray(t *testing.T) {
	nc, server := net.Pipe()
	defer server.Close()
	c := must(transport.NewStreamClient(context.Background(), nc, nil))(t)
	defer c.Close()
	stray := rpcReply(1)
	must(server.Write(markedRecord(stray)))(t)
	waitFor(t, "the stray reply", func() bool { return c.Stats().Dropped == 1 })
	enabled := make(chan error, 1)
	go func() {
		_, err := c.EnableRDMA(testCtx(t))
		enabled <- err
	}()
	if _, err := server.Read(make([]byte, 1)); err != nil { // of the MPA Request
		t.Error(err)
	}
	server.Close()
	if err := <-enabled; err == nil {
		t.Error("enabled")
	}
}

// A transmission whose XID an outstanding call has is refused, and takes nothing from that call.
func TestXIDInUse(t *testing.T) {
	h := newEcho()
	_, addr := served(t, overShared, h, testConfig())
	rdma := must(transport.Dial(testCtx(t), "tcp", addr, testConfig()))(t)
	defer rdma.Close()
	mustDo(t, rdma, &nullCall) // which brings credits
	for name, c := range map[string]rpc.Caller{"rdma": rdma, "tcp": dialStream(t, addr, testConfig())} {
		t.Run(name, func(t *testing.T) {
			ctx := testCtx(t)
			block := rpc.Call{Prog: testProg, Vers: testVers, Proc: procBlock, Resend: &rpc.Transmission{XID: 7}}
			done := make(chan error, 1)
			go func() { done <- tryCtx(ctx, c, &block) }()
			<-h.enter
			again := nullCall
			again.Resend = &rpc.Transmission{XID: 7}
			err := tryCtx(ctx, c, &again)
			if e, ok := errors.AsType[*rpc.RPCError](err); !ok || e.Reason != rpc.ReasonBadCall || !strings.Contains(err.Error(), "XID in use") {
				t.Error(err)
			}
			h.leave <- struct{}{}
			if err := <-done; err != nil {
				t.Error("the first one:", err)
			}
		})
	}
}
