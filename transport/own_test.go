package transport_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// latecomer looks at its first call, which has a goroutine of its own, once others have come
// through the memory in which it arrived.
type latecomer struct {
	second chan struct{}
	got    chan []byte // credential, verifier, arguments
}

func (latecomer) Describe(req *rpc.Request) rpc.Traits {
	return rpc.Traits{Blocks: req.Proc == procBlock}
}

func (h latecomer) ServeRPC(_ context.Context, req *rpc.Request, _ *rpc.Response) {
	if req.Proc != procBlock {
		return
	}
	<-h.second
	h.got <- bytes.Join([][]byte{req.Cred.Body, req.Verf.Body, req.Args}, nil)
}

// TestOwn: what a call consists of is there as long as its handler runs, also when the handler
// outlives the upcall: with a credential and verifier or without.
func TestOwn(t *testing.T) {
	fill := func(b string, n int) []byte { return bytes.Repeat([]byte(b), n) }
	for name, call := range map[string]rpc.Call{
		"arguments alone":     {Args: fill("a", 40)},
		"all":                 {Args: fill("a", 40), Cred: xdr.Auth{Flavor: 99, Body: fill("c", 40)}, Verf: xdr.Auth{Flavor: 99, Body: fill("v", 40)}},
		"more than its price": {Args: fill("a", 20_000)},
	} {
		t.Run(name, func(t *testing.T) {
			h := latecomer{second: make(chan struct{}), got: make(chan []byte, 1)}
			_, c := pair(t, h, &transport.Config{AnyCred: true, InlineRecv: 64 << 10}, &transport.Config{InlineSend: 64 << 10})
			mustDo(t, c, &nullCall) // brings credits for two calls
			call.Prog, call.Vers, call.Proc = testProg, testVers, procBlock
			first := make(chan error, 1)
			go func() { first <- try(t, c, &call) }()
			waitFor(t, "the call is sent", func() bool { return c.Stats().Calls == 2 })
			for range 3 { // the first one may have come in the same read
				noErr(t, try(t, c, &rpc.Call{Prog: testProg, Vers: testVers, Proc: procSum, Args: make([]byte, 200)}))
			}
			close(h.second)
			want := bytes.Join([][]byte{call.Cred.Body, call.Verf.Body, call.Args}, nil)
			if got := <-h.got; !bytes.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
			if err := <-first; err != nil {
				t.Error(err)
			}
		})
	}
}
