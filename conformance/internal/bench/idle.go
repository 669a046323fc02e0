package bench

import (
	"context"
	"runtime"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

const (
	idleCount = 500
	idleLimit = 16 // KiB a connection
)

// memoryInUse returns the octets of heap and stacks in use after a collection.
func memoryInUse() uint64 {
	runtime.GC()
	runtime.GC() // empties the pools, which survive one collection
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// idleRound opens connections that make one call each and then rest, and asks the other process how much
// memory each of them holds.
func idleRound(p Peer) (limit, each float64, err error) {
	probe, err := dialRDMA(p.RDMA, nil)
	if err != nil {
		return 0, 0, err
	}
	defer probe.Close()
	before, err := peerMemory(probe)
	if err != nil {
		return 0, 0, err
	}
	for range idleCount {
		c, err := dialRDMA(p.RDMA, nil)
		if err != nil {
			return 0, 0, err
		}
		defer c.Close()
		var reply rpc.Reply
		if err := c.Do(context.Background(), &rpc.Call{Prog: benchProg, Vers: 1, Proc: procNull}, &reply); err != nil {
			return 0, 0, err
		}
		reply.Release()
	}
	after, err := peerMemory(probe)
	return idleLimit, (float64(after) - float64(before)) / idleCount / 1024, err
}

func peerMemory(c *transport.Client) (uint64, error) {
	var reply rpc.Reply
	defer reply.Release()
	if err := c.Do(context.Background(), &rpc.Call{Prog: benchProg, Vers: 1, Proc: procMemory}, &reply); err != nil {
		return 0, err
	}
	d := xdr.NewDecoder(reply.Results)
	n := d.Uint64()
	return n, d.ErrIn("memory")
}
