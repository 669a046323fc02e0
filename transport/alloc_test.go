package transport_test

import (
	"context"
	"testing"

	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/redial"
	"github.com/stag-rdma/stag/transport/rpc"
)

// TestNullAllocs proves that a NULL call costs no allocation at either end once warm, with credits of its own or from a
// pool, traced, nor by a redial.Caller: client and server are in this process. With a Memory no call costs more than without.
func TestNullAllocs(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	tracing := testConfig()
	tracing.Trace = &rpc.Trace{
		Registered: func(uint32, rpc.ChunkKind, int) {}, Sent: func(uint32, rpcrdma.Form, int) {}, Replied: func(uint32, int) {},
		Ended: func(uint32, error) {}, Received: func(uint32, int) {}, Answered: func(uint32, int, int) {},
	}
	_, direct := pair(t, newEcho(), nil, nil)
	_, pooled := startServer(t, newEcho(), poolConfig(100))
	dial(t, pooled, nil) // the first one has Credits
	shares := dial(t, pooled, nil)
	_, traced := pair(t, newEcho(), tracing, tracing)
	_, addr := startServer(t, newEcho(), nil)
	again, err := redial.New(&redial.Config{Dial: func(ctx context.Context) (redial.Conn, error) {
		return transport.Dial(ctx, "tcp", addr, testConfig())
	}})
	noErr(t, err)
	defer again.Close()
	ctx := context.Background()
	count := func(c rpc.Caller, call *rpc.Call) float64 {
		var r rpc.Reply
		do := func() {
			noErr(t, c.Do(ctx, call, &r))
			r.Release()
		}
		for range 200 {
			do()
		}
		return testing.AllocsPerRun(500, do)
	}
	for name, c := range map[string]rpc.Caller{"direct": direct, "pooled": shares, "traced": traced, "redialed": again} {
		if n := count(c, &nullCall); n != 0 {
			t.Errorf("%s: %v allocations per NULL call", name, n)
		}
	}
	with := memoryCall(rpc.Alloc(9000), rpc.Alloc(9000), 0, 9000)
	without := *with
	without.ItemMemory, without.SinkMemory = nil, nil
	if a, b := count(direct, with), count(direct, &without); a > b {
		t.Errorf("%v allocations with Memory, %v without", a, b)
	}
}
