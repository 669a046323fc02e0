package transport_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// The test program: number, version and procedures.
const (
	testProg = 400100
	testVers = 1

	procNull  = 0
	procEcho  = 1 // opaque<> in, the same opaque<> out
	procFill  = 2 // u32 n in, opaque<> of n octets out, as an item
	procBlock = 3 // returns when the test lets it
	procPanic = 4
	procList  = 5 // u32 n in, n words out: a large result without an item
	procSum   = 6 // opaque<> in, its length and octet sum out
)

// echo is the test program.
type echo struct {
	enter, leave chan struct{} // procBlock
}

func newEcho() *echo {
	return &echo{enter: make(chan struct{}, 64), leave: make(chan struct{})}
}

// Describe marks the one procedure that waits.
func (*echo) Describe(req *rpc.Request) rpc.Traits {
	return rpc.Traits{Blocks: req.Proc == procBlock}
}

func (e *echo) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	switch {
	case req.Prog != testProg:
		resp.Stat = xdr.ProgUnavail
		return
	case req.Vers != testVers:
		resp.ProgMismatch(testVers, testVers)
		return
	}
	d := xdr.NewDecoder(req.Args)
	switch req.Proc {
	case procNull:
	case procEcho:
		p := d.Opaque(8 << 20)
		b := resp.Buffer(len(p))
		copy(b, p)
		resp.AppendItem(b)
		resp.Results = xdr.AppendUint32(resp.Results, 0xfeedface)
	case procFill:
		b := resp.Buffer(int(d.Uint32() & (8<<20 - 1)))
		fill(b)
		resp.AppendItem(b)
	case procBlock:
		e.enter <- struct{}{}
		select {
		case <-e.leave:
		case <-ctx.Done():
		}
	case procPanic:
		panic("on request")
	case procList:
		for i := range d.Uint32() & (1<<21 - 1) {
			resp.Results = xdr.AppendUint32(resp.Results, i)
		}
	case procSum:
		p := d.Opaque(8 << 20)
		resp.Results = xdr.AppendUint32(resp.Results, uint32(len(p)))
		resp.Results = xdr.AppendUint32(resp.Results, sum(p))
	default:
		resp.Stat = xdr.ProcUnavail
	}
	if d.Err() != nil {
		resp.Stat = xdr.GarbageArgs
	}
}

// fill writes the pattern of procFill.
func fill(b []byte) {
	for i := range b {
		b[i] = patternAt(i)
	}
}

func patternAt(i int) byte { return byte(i*7 + i>>8) }

func filled(n int) []byte {
	b := make([]byte, n)
	fill(b)
	return b
}

func sum(b []byte) (s uint32) {
	for i, v := range b {
		s += uint32(v) * uint32(i+1)
	}
	return s
}

// patience is how long tests wait for what should come: a bound for what hangs, not for a machine that is busy. It is a third of
// what go test waits itself, so that the test that hangs can say so.
var patience time.Duration

// testCtx ends before the test does.
func testCtx(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// mustDo makes a call that must succeed, and releases its reply.
func mustDo(t testing.TB, c rpc.Caller, call *rpc.Call) *rpc.Reply {
	t.Helper()
	var r rpc.Reply
	if err := c.Do(testCtx(t), call, &r); err != nil {
		t.Fatalf("proc %d: %v", call.Proc, err)
	}
	t.Cleanup(r.Release)
	if err := r.Header.Err(); err != nil {
		t.Fatalf("proc %d: %v", call.Proc, err)
	}
	return &r
}

// echoCall is a call of procEcho with p as its item.
func echoCall(p []byte) *rpc.Call {
	return itemCall(procEcho, p)
}

// itemCall is a call with one opaque as its item.
func itemCall(proc uint32, p []byte) *rpc.Call {
	return &rpc.Call{
		Prog: testProg, Vers: testVers, Proc: proc,
		Args: xdr.AppendUint32(nil, uint32(len(p))), Item: p, ItemPos: 4,
	}
}

// wordCall is a call with one word.
func wordCall(proc, v uint32) *rpc.Call {
	return &rpc.Call{Prog: testProg, Vers: testVers, Proc: proc, Args: xdr.AppendUint32(nil, v)}
}

// wantStatus asserts the refusal of a call by an RPC status.
func wantStatus(t testing.TB, c rpc.Caller, call *rpc.Call, want xdr.AcceptStat) {
	t.Helper()
	var r rpc.Reply
	defer r.Release()
	noErr(t, c.Do(testCtx(t), call, &r))
	e, ok := errors.AsType[*xdr.RPCStatusError](r.Header.Err())
	if !ok || e.Accept != want {
		t.Fatalf("status %v, want %v", r.Header.Err(), want)
	}
}

// try makes a call for its error.
func try(t testing.TB, c rpc.Caller, call *rpc.Call) error {
	t.Helper()
	return tryCtx(testCtx(t), c, call)
}

// tryCtx is try with a context.
func tryCtx(ctx context.Context, c rpc.Caller, call *rpc.Call) error {
	var r rpc.Reply
	defer r.Release()
	return c.Do(ctx, call, &r)
}

// waitFor polls a condition that other goroutines make true.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}
