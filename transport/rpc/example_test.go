package rpc_test

import (
	"context"
	"fmt"
	"log"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

const prog, vers, procPut = 400000, 1, 3 // takes a name and an opaque

// putter stores blobs of at most 100,000 octets. It looks at the name before the octets are
// moved, and reads them straight into its own memory.
type putter map[string][]byte

func (putter) Describe(req *rpc.Request) rpc.Traits {
	return rpc.Traits{Lazy: req.Proc == procPut}
}

func (p putter) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	d := xdr.NewDecoder(req.Args)
	name := d.String(20)
	blob := req.Opaque(&d, 1<<20)
	switch {
	case d.End() != nil:
		resp.Stat = xdr.GarbageArgs
	case blob.Len() > 100_000:
		resp.Results = xdr.AppendUint32(resp.Results, 27) // too large
	default:
		mem := make([]byte, blob.Len())
		if blob.PullInto(ctx, mem) != nil {
			return // the connection has ended
		}
		p[name] = mem
		resp.Results = xdr.AppendUint32(resp.Results, 0)
	}
}

// A handler that refuses data before they are moved.
func ExampleRequest_Opaque() {
	// With Sends of 4 KiB, as with Linux: larger ones take the data along.
	cfg := &transport.Config{
		Binding:    chunks.Table{{Prog: prog, Vers: vers, Proc: procPut, Arg: chunks.After(chunks.Opaque)}}, // after a string
		InlineSend: transport.DefaultInlineSize,
	}
	stored := putter{}
	s := &transport.Server{Handler: stored, Config: cfg}
	defer s.Close()
	a, b := rdmaptest.Pipe()
	go s.ServeConn(b)
	c, err := transport.NewClient(context.Background(), a, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	for _, size := range []int{50_000, 500_000} {
		args := xdr.AppendUint32(xdr.AppendString(nil, "blob"), uint32(size))
		call := rpc.Call{
			Prog: prog, Vers: vers, Proc: procPut, Args: args, ItemPos: len(args), Item: make([]byte, size),
		}
		var reply rpc.Reply
		if err := c.Do(context.Background(), &call, &reply); err != nil {
			log.Fatal(err)
		}
		fmt.Println("status", reply.Results[3], "after reading", s.Stats().OctetsRead, "octets")
		reply.Release()
	}
	fmt.Println(len(stored["blob"]), "octets stored")
	// Output:
	// status 0 after reading 50000 octets
	// status 27 after reading 50000 octets
	// 50000 octets stored
}
