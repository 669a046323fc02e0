package transport

import (
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
	if n, _ := c.load(0); i < 0 || n > 0 || len(ls.open) == 1 {
		return false
	}
	ls.open = slices.Delete(ls.open, i, i+1)
	return true
}

// Ended tells all of them that no more calls will come.
func (ls *fanout) Ended(err error) {
	ls.at.End()
	ls.stop()
	for _, c := range ls.all {
		c.ended(err)
	}
}
