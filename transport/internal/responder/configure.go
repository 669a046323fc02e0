package responder

import (
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/mem"
	"github.com/stag-rdma/stag/xdr"
)

// canExpose reports whether the client can read exposed replies.
//
// Choice: it can if it has read depth, and has either called the Connection Configuration Protocol
// or not used RFC 8797, which belongs to RFC 8166. Other clients would drop the reply and never
// send RDMA_DONE.
func (rc *Responder) canExpose() bool {
	return rc.cfg.RFC5666 != nil && (rc.configured || !rc.told) && rc.Conn.ConnectionState().IRD > 0
}

// begin applies what the start-up has settled, before the first message is looked at.
func (rc *Responder) begin() {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.joinPool()
	if rc.cfg.RFC5666 == nil {
		return
	}
	reads := rc.canExpose()
	rc.resp.Configure(func(c *rpcrdma.ResponderConfig) { c.Reads = reads })
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
	rc.configured, rc.noPull = true, args.MaxRead == 0
	reads := rc.canExpose()
	rc.resp.Configure(func(c *rpcrdma.ResponderConfig) {
		c.SendSize = rpcrdma.ConfigInline(rc.cfg.Private.SendSize, args.MaxReply, rc.agreed)
		c.Reads = reads
	})
	got := rpcrdma.ConfigReply{MaxCall: uint32(rc.inline), MaxRead: uint32(rc.Conn.ConnectionState().IRD)}
	if rc.cfg.RFC5666 != nil && rc.cfg.RFC5666.Align > 0 {
		got.Align = uint32(rc.cfg.RFC5666.Align)
	}
	return got
}

// landed copies an RDMA_MSGP to its place. Pooled buffers begin at a multiple of every alignment
// that Config.Align permits, so the data have the same alignment in memory as in the Send. x holds
// the buffer; the message is not copied again.
func (rc *Responder) landed(x *Call, send []byte) []byte {
	if rc.cfg.RFC5666 == nil || !rpcrdma.IsPadded(send) {
		return send
	}
	rc.Ctr.Padded.Add(1)
	x.held = mem.Shared.Get(len(send))
	return x.held.Data[:copy(x.held.Data, send)]
}
