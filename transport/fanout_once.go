package transport

import (
	"bytes"
	"time"

	"github.com/stag-rdma/stag/transport/internal/execute"
	"github.com/stag-rdma/stag/transport/internal/responder"
	"github.com/stag-rdma/stag/transport/internal/stream"
	"github.com/stag-rdma/stag/transport/rpc"
)

// This file is the duplicate request cache behind a Listener. The server above was written for TCP:
// it does not know the cache, and a repeated call never reaches it.

// changesNFS3 names the procedures of NFS version 3 that change something: SETATTR, and WRITE to
// LINK (RFC 1813 Section 3.3). WRITE is one of them because, if it runs again, it may overwrite a
// later WRITE.
func changesNFS3(prog, vers, proc uint32) bool {
	const nfs, setattr, write, link = 100003, 2, 7, 15
	return prog == nfs && vers == 3 && (proc == setattr || proc >= write && proc <= link)
}

// once passes on a call that must not run twice, unless it came before: then it gets the reply to
// the first one, as soon as there is one. It returns false for calls that may run again, and does
// not touch them.
func (ls *fanout) once(x *responder.Call) bool {
	req := rpc.Request{CallHeader: x.In.RPC, Args: x.In.Args, RemoteAddr: ls.addr}
	if !ls.changes(req.Prog, req.Vers, req.Proc) || !ls.dups.Covers(&req) {
		return false
	}
	e, old, later := ls.dups.Enter(&req)
	if later {
		go ls.join(x, req)
	} else {
		ls.begin(x, e, old)
	}
	return true
}

// join waits for the reply to the first transmission of the call.
func (ls *fanout) join(x *responder.Call, req rpc.Request) {
	e, old := ls.dups.Begin(ls.ctx, &req)
	ls.begin(x, e, old)
}

// begin passes on the first transmission of a call, and answers a later one with its reply.
func (ls *fanout) begin(x *responder.Call, e *execute.Entry, old *execute.SavedReply) {
	switch {
	case old != nil:
		ls.rc.Answer(x, old.Record)
	case e != nil && ls.at.Late():
		ls.ctr.Late.Add(1)
		ls.dups.End(e, nil)
		ls.rc.Finish(x)
	case e != nil:
		ls.pass(x, e)
	default:
		ls.rc.Finish(x) // the connection has ended
	}
}

// keep ends a call that must not run twice with the reply in msg, which it copies.
func (ls *fanout) keep(e *execute.Entry, msg []byte) {
	ls.dups.End(e, &execute.SavedReply{Record: bytes.Clone(msg)})
}

// orphan keeps the calls that the server above is working on when the connection ends: their
// replies are for the next connection, on which the client sends the calls again. Calls that the
// server has not read completely cannot have been executed: they are forgotten, and so are all
// calls if the server has closed the connection itself. The caller holds c.mu; c.pending was moved
// to left.
func (c *recordConn) orphan(left map[uint32]owed) (forgotten []*execute.Entry) {
	for xid, o := range left {
		switch {
		case o.entry == nil:
		case c.closed || o.call.Unread():
			forgotten = append(forgotten, o.entry)
		default:
			if c.orphans == nil {
				c.orphans = make(map[uint32]*execute.Entry)
			}
			c.orphans[xid] = o.entry
		}
	}
	if len(c.orphans) > 0 {
		c.patience = time.AfterFunc(c.fanout.keeps, c.disown)
	}
	return forgotten
}

// adopt takes the reply to an orphan, and reports whether it is one. Of a reply that the client had no room for there is
// only the head: then nobody has the reply, as in tooLarge.
func (c *recordConn) adopt(xid uint32, rec *stream.Record) bool {
	c.mu.Lock()
	e, ok := c.orphans[xid]
	delete(c.orphans, xid)
	last := ok && len(c.orphans) == 0
	if last {
		c.patience.Stop()
	}
	c.mu.Unlock()
	switch {
	case ok && rec.Cut:
		c.fanout.dups.End(e, nil)
	case ok:
		c.fanout.keep(e, rec.Bytes())
	}
	if last {
		c.hint() // Read may now report the end of the connection
	}
	return ok
}

// disown gives up the orphans, because nobody will answer them.
func (c *recordConn) disown() {
	c.mu.Lock()
	orphans := c.orphans
	c.orphans = nil
	if c.patience != nil {
		c.patience.Stop()
	}
	c.mu.Unlock()
	for _, e := range orphans {
		c.fanout.dups.End(e, nil)
	}
	c.hint()
}

// dropRecord releases the memory of a reply that was not written completely.
func (c *recordConn) dropRecord() {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	c.w.Drop()
}
