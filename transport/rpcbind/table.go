package rpcbind

import (
	"context"

	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Table answers rpcbind calls from a list that does not change: the procedures NULL, GETADDR, DUMP,
// and, in version 4, GETVERSADDR. The answer to SET and UNSET is false. Calls of other programs go
// to Next. It is a [rpc.Handler] and safe for concurrent use.
type Table struct {
	Entries []Entry
	// Next serves all other programs. If nil, they are answered with PROG_UNAVAIL.
	Next rpc.Handler
}

// ServeRPC implements [rpc.Handler].
func (t *Table) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	switch {
	case req.Prog != Program && t.Next != nil:
		t.Next.ServeRPC(ctx, req, resp)
	case req.Prog != Program:
		resp.Stat = xdr.ProgUnavail
	case req.Vers < version3 || req.Vers > version4:
		resp.ProgMismatch(version3, version4)
	default:
		t.serve(req, resp)
	}
}

// Describe asks Next about its programs.
func (t *Table) Describe(req *rpc.Request) (d rpc.Traits) {
	if req.Prog != Program {
		d = rpc.Describe(t.Next, req)
	}
	return d
}

// Ready asks Next about its calls.
func (t *Table) Ready(ctx context.Context, req *rpc.Request) bool {
	return req.Prog != Program && rpc.Ready(ctx, t.Next, req)
}

// serve answers one rpcbind call.
func (t *Table) serve(req *rpc.Request, resp *rpc.Response) {
	d := xdr.NewDecoder(req.Args)
	var e Entry
	switch req.Proc {
	case procNull:
	case procSet, procUnset:
		e.parse(&d)
		resp.Results = xdr.AppendBool(resp.Results, false)
	case procGetAddr:
		e.parse(&d)
		resp.Results = xdr.AppendString(resp.Results, t.find(&e, true))
	case procDump:
		for i := range t.Entries {
			resp.Results = t.Entries[i].appendTo(xdr.AppendBool(resp.Results, true))
		}
		resp.Results = xdr.AppendBool(resp.Results, false)
	case procGetVersAddr:
		if req.Vers != version4 {
			resp.Stat = xdr.ProcUnavail
			return
		}
		e.parse(&d)
		resp.Results = xdr.AppendString(resp.Results, t.find(&e, false))
	default:
		resp.Stat = xdr.ProcUnavail
	}
	if d.End() != nil {
		resp.Stat = xdr.GarbageArgs
	}
}

// find returns the address of a service. GETADDR falls back to another version of the
// program, GETVERSADDR does not (RFC 1833 Section 2.2.1).
func (t *Table) find(want *Entry, anyVersion bool) (addr string) {
	for i := range t.Entries {
		e := &t.Entries[i]
		if e.Prog != want.Prog || e.Netid != want.Netid {
			continue
		}
		if e.Vers == want.Vers {
			return e.Addr
		}
		if anyVersion && addr == "" {
			addr = e.Addr
		}
	}
	return addr
}
