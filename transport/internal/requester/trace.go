package requester

import (
	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/rpc"
)

// traceSending traces a call that is about to be posted, and its memory.
func traceSending(t *rpc.Trace, rc *rpcrdma.Call, octets int) {
	if t == nil {
		return
	}
	if f := t.Registered; f != nil {
		for kind, chunk := range [...]chunks.WriteChunk{rc.Memory.Arg, rc.Memory.Stream, rc.Memory.Sink, rc.Memory.Reply} {
			if asked := [...]bool{rc.Plan.Arg, rc.Plan.Stream > 0, rc.Plan.Sink, rc.Plan.Reply > 0}; asked[kind] {
				f(rc.XID, rpc.ChunkKind(kind), int(chunk.Room()))
			}
		}
	}
	if t.Sent != nil {
		t.Sent(rc.XID, rc.Plan.Form, octets)
	}
}

// traceReplied traces a reply.
func traceReplied(t *rpc.Trace, xid uint32, octets int, invalidated bool) {
	if t == nil {
		return
	}
	if t.Replied != nil {
		t.Replied(xid, octets)
	}
	if invalidated && t.Invalidated != nil {
		t.Invalidated(xid)
	}
}

func traceEnded(t *rpc.Trace, xid uint32, err error) {
	if t != nil && t.Ended != nil {
		t.Ended(xid, err)
	}
}
