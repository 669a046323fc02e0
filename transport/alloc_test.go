package transport_test

import (
	"context"
	"testing"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/redial"
	"github.com/stag-rdma/stag/transport/rpc"
)

// TestNullAllocs proves that a NULL call costs no allocation at either end once warm, with credits of its own or from a
// pool, nor by a redial.Caller: client and server are in this process.
func TestNullAllocs(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	pooled := testConfig()
	pooled.CreditPool = transport.NewCreditPool(100)
	_, direct := pair(t, newEcho(), nil, nil)
	_, shares := pair(t, newEcho(), pooled, nil)
	_, addr := startServer(t, newEcho(), nil)
	again, err := redial.New(&redial.Config{Dial: func(ctx context.Context) (redial.Conn, error) {
		return transport.Dial(ctx, "tcp", addr, testConfig())
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	ctx := context.Background()
	for name, c := range map[string]rpc.Caller{"direct": direct, "pooled": shares, "redialed": again} {
		var r rpc.Reply
		call := func() {
			if err := c.Do(ctx, &nullCall, &r); err != nil {
				t.Fatal(err)
			}
			r.Release()
		}
		for range 200 {
			call()
		}
		if n := testing.AllocsPerRun(500, call); n != 0 {
			t.Errorf("%s: %v allocations per NULL call", name, n)
		}
	}
}
