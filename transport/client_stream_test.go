package transport_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

// A server that does not read keeps the call that is being written. Those behind it end with their contexts.
func TestStreamTurn(t *testing.T) {
	nc, server := net.Pipe()
	defer server.Close()
	c := must(transport.NewStreamClient(context.Background(), nc, nil))(t)
	first := make(chan error, 1)
	go func() { first <- try(t, c, &nullCall) }()
	if _, err := server.Read(make([]byte, 1)); err != nil { // it is being written
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	freed := 0
	call := nullCall
	call.Free, call.Resend = func() { freed++ }, new(rpc.Transmission)
	if err := tryCtx(ctx, c, &call); !errors.Is(err, context.DeadlineExceeded) || freed != 1 || call.Resend.Posted {
		t.Errorf("%v, freed %d times, posted: %v", err, freed, call.Resend.Posted)
	}
	c.Close()
	if err := <-first; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if n := c.Stats().InFlight; n != 0 {
		t.Errorf("%d calls in flight", n)
	}
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
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
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
