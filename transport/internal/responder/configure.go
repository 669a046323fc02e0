package responder

import (
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// begin applies what the start-up has settled, before the first message is looked at.
func (rc *Responder) begin() {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.joinPool()
	rc.profile.settled(false)
}

// configure answers the Connection Configuration Protocol (RFC 5666 Section 6), in both profiles,
// and applies what the client announces.
//
// Choice: it answers every such call, not only the first call of a connection, because the
// announced sizes cannot harm earlier calls.
func (rc *Responder) configure(x *Call) {
	x.Resp.Reset()
	x.SetRequest()
	r := &x.Resp
	if !rc.cfg.AnyCred || x.Req.RPCVers != xdr.RPCVersion {
		if h, refused := x.Req.Refusal(nil); refused {
			r.Refuse(h)
		}
	}
	switch {
	case r.Refused():
	case x.Req.Vers != rpcrdma.ConfigVersion:
		r.ProgMismatch(rpcrdma.ConfigVersion, rpcrdma.ConfigVersion)
	case x.Req.Proc == 0:
	case x.Req.Proc != rpcrdma.ConfigProc:
		r.Stat = xdr.ProcUnavail
	default:
		args, err := rpcrdma.ParseConfigArgs(x.Req.Args)
		if err != nil {
			r.Stat = xdr.GarbageArgs
			break
		}
		r.Results = rc.apply(args).Append(r.Results)
	}
	rc.Reply(x)
}

// apply applies the client's values and returns ours.
func (rc *Responder) apply(args rpcrdma.ConfigArgs) rpcrdma.ConfigReply {
	if args.MaxRead > 0 {
		rc.Conn.LimitORD(int(min(args.MaxRead, 1<<14)))
	}
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.noPull = args.MaxRead == 0
	rc.profile.settled(true)
	rc.resp.Configure(func(c *rpcrdma.ResponderConfig) {
		c.SendSize = rpcrdma.ConfigInline(rc.cfg.Private.SendSize, args.MaxReply, rc.agreed)
	})
	return rpcrdma.ConfigReply{MaxCall: uint32(rc.inline), MaxRead: uint32(rc.Conn.ConnectionState().IRD), Align: rc.profile.align()}
}
