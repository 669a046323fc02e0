package transport

import (
	"bytes"
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/stag-rdma/stag/transport/internal/execute"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/internal/responder"
	"github.com/stag-rdma/stag/transport/rpc"
)

// fanout is the record-marked connections as which one RDMA connection appears: one, or
// Config.Fanout. A call goes to the one with the fewest outstanding replies.
type fanout struct {
	rc      *responder.Responder
	all     []*recordConn // the connections that Accept returns
	ctr     *memory.Counters
	dups    *execute.Duplicates
	changes func(prog, vers, proc uint32) bool // of the Listener
	addr    net.Addr                           // of the client
	at      *execute.Origin
	keeps   time.Duration      // how long calls are waited for when the connection is gone
	ctx     context.Context    // ends with the connection
	stop    context.CancelFunc // ends ctx

	mu   sync.Mutex
	open []*recordConn
}

var _ responder.App = (*fanout)(nil)

func newFanout(l *Listener, conn net.Conn, turn execute.Turn) *fanout {
	ls := &fanout{
		ctr: &l.ctr, dups: l.exec.Duplicates, changes: l.changes, keeps: l.cfg.Duplicates.Time,
		addr: conn.RemoteAddr(), at: l.exec.Enter(conn, turn),
	}
	ls.ctx, ls.stop = context.WithCancel(context.Background())
	ls.rc = responder.New(l.resp, &l.ctr, l.gate, ls.addr, ls)
	for range l.cfg.Fanout {
		ls.all = append(ls.all, newRecordConn(ls, conn, l.cfg.MaxPayload))
	}
	ls.open = slices.Clone(ls.all)
	return ls
}

// Lazy: whole calls are read from the connections.
func (ls *fanout) Lazy(*rpc.Request) bool { return false }

// Dispatch passes a call on, unless the duplicate request cache answers it.
func (ls *fanout) Dispatch(x *responder.Call, inline bool) {
	if inline {
		x.Own()
	}
	x.Identify()
	if !ls.once(x) {
		ls.pass(x, nil)
	}
}

// pass passes a call to one of them, with its entry among the duplicates if it must not run twice. A call whose XID is being served already is a retransmission: it is
// dropped, because the first one will be answered.
func (ls *fanout) pass(x *responder.Call, e *execute.Entry) {
	ls.mu.Lock()
	c := ls.choose(x.Req.XID)
	taken := c != nil && c.queue(owed{x, e})
	ls.mu.Unlock()
	if !taken {
		if e != nil {
			ls.dups.End(e, nil)
		}
		ls.ctr.Dropped.Add(1)
		ls.rc.Finish(x)
	}
}

// choose returns the connection with the fewest calls, or nil if one has the XID already. The caller
// holds ls.mu.
func (ls *fanout) choose(xid uint32) (least *recordConn) {
	best := 0
	for _, c := range ls.open {
		n, has := c.load(xid)
		if has {
			return nil
		}
		if least == nil || n < best {
			least, best = c, n
		}
	}
	return least
}

// leave removes c and reports whether it could: c owes no reply and is not the last one.
func (ls *fanout) leave(c *recordConn) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	i := slices.Index(ls.open, c)
	// The last one ends the connection below: there would be nobody to read the calls.
	if n, _ := c.load(0); i < 0 || n > 0 || len(ls.open) == 1 {
		return false
	}
	ls.open = slices.Delete(ls.open, i, i+1)
	return true
}

// Ended tells all of them that no more calls will come.
func (ls *fanout) Ended(err error) {
	ls.at.End()
	ls.stop() // those that wait for the reply to the first transmission
	for _, c := range ls.all {
		c.ended(err)
	}
}

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
	if later { // not here: this may be the goroutine that reads
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
