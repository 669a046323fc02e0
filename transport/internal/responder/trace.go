package responder

import "github.com/stag-rdma/stag/transport/rpc"

func traceReceived(t *rpc.Trace, xid uint32, octets int) {
	if t != nil && t.Received != nil {
		t.Received(xid, octets)
	}
}

func tracePulled(t *rpc.Trace, xid uint32, octets int) {
	if t != nil && t.Pulled != nil {
		t.Pulled(xid, octets)
	}
}

func traceAnswering(t *rpc.Trace, xid uint32, octets, written int) {
	if t != nil && t.Answered != nil {
		t.Answered(xid, octets, written)
	}
}
