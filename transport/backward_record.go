package transport

import (
	"context"

	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/internal/stream"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// maxBackwardWritten limits the backward calls of one record-marked connection that were written and
// not answered.
const maxBackwardWritten = 1024

// callBackward makes the backward call in rec, which it takes. A server writes calls as well as replies:
// NFSv4.1 servers do so on the connection of a session's back channel. XID, credential and verifier stay
// the same; Read returns the reply as a record.
//
// Choice: if the server makes a call, we believe that the client accepts it (RFC 8167 Section 5.3),
// because the server is the upper layer that was told. A call that cannot be made is answered with
// SYSTEM_ERR, the only way to tell a record-marked server.
func (c *recordConn) callBackward(rec *stream.Record) {
	d := xdr.NewDecoder(rec.Bytes())
	var h xdr.CallHeader
	b := c.rc.Backward
	if rec.Cut {
		h.XID, _, _ = xdr.PeekXID(rec.Bytes())
	} else if b != nil && h.Parse(&d) != nil {
		b = nil
	}
	if b == nil {
		rec.Buf.Release()
		c.fanout.ctr.Dropped.Add(1)
		return
	}
	b.Enable()
	if c.calls.Add(1) > maxBackwardWritten || rec.Cut {
		c.answerBackward(rec, &xdr.ReplyHeader{XID: h.XID, Accept: xdr.SystemErr}, nil)
		return
	}
	call := &rpc.Call{
		Prog: h.Prog, Vers: h.Vers, Proc: h.Proc, Cred: h.Cred, Verf: h.Verf, Args: d.Rest(),
		Resend: &rpc.Transmission{XID: h.XID},
	}
	go func() {
		var reply rpc.Reply
		defer reply.Release()
		if b.Do(context.Background(), call, &reply) != nil { // ends with the connection
			reply.Header = xdr.ReplyHeader{XID: h.XID, Accept: xdr.SystemErr}
		}
		c.answerBackward(rec, &reply.Header, reply.Results)
	}()
}

// answerBackward queues the reply to a backward call for Read, and ends the call.
func (c *recordConn) answerBackward(rec *stream.Record, h *xdr.ReplyHeader, results []byte) {
	rec.Buf.Release()
	c.calls.Add(-1)
	n := h.Size() + len(results)
	buf := memory.Shared.Get(n)
	_ = append(xdr.AppendReply(buf.Data[:0], h), results...) // within the buffer
	c.mu.Lock()
	over := c.err != nil
	if !over {
		c.unread = append(c.unread, unread{buf: buf, n: n})
	}
	c.mu.Unlock()
	if over {
		buf.Release()
		return
	}
	c.hint()
}
