package transport_test

import (
	"context"
	"testing"

	"github.com/stag-rdma/stag/transport/rpc"
)

// TestNullAllocs proves that a NULL call costs no allocation at either end once
// warm: client and server are in this process.
func TestNullAllocs(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	_, c := pair(t, newEcho(), nil, nil)
	ctx := context.Background()
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
		t.Errorf("%v allocations per NULL call", n)
	}
}
