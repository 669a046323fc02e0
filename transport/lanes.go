package transport

import (
	"context"
	"net"
	"slices"
	"sync"

	"github.com/stag-rdma/stag/transport/internal/execute"
)

// lanes are the record-marked connections as which one RDMA connection appears: one, or
// Config.Fanout. A call goes to the one with the fewest outstanding replies.
type lanes struct {
	rc   *respConn
	all  []*recordConn // the connections that Accept returns
	dups *execute.Duplicates
	addr net.Addr // of the client
	at   *execute.Origin
	ctx  context.Context    // ends with the connection
	stop context.CancelFunc // ends ctx

	mu   sync.Mutex
	open []*recordConn
}

var _ application = (*lanes)(nil)

func newLanes(l *Listener, conn net.Conn) *lanes {
	ls := &lanes{dups: l.exec.Duplicates, addr: conn.RemoteAddr(), at: l.exec.Enter(conn)}
	ls.ctx, ls.stop = context.WithCancel(context.Background())
	ls.rc = newRespConn(l.cfg, &l.ctr, l.gate, ls)
	for range l.cfg.Fanout {
		ls.all = append(ls.all, newRecordConn(ls.rc, ls, conn))
	}
	ls.open = slices.Clone(ls.all)
	return ls
}

// dispatch passes a call on, unless the duplicate request cache answers it.
func (ls *lanes) dispatch(x *exchange, inline bool) {
	if inline {
		x.own()
	}
	x.req.XID, x.req.Prog, x.req.Vers, x.req.Proc = x.in.RPC.XID, x.in.RPC.Prog, x.in.RPC.Vers, x.in.RPC.Proc
	x.protected = x.in.RPC.Cred.Protected()
	if !ls.once(x) {
		ls.pass(x)
	}
}

// pass passes a call to a lane. A call whose XID is being served already is a retransmission: it is
// dropped, because the first one will be answered.
func (ls *lanes) pass(x *exchange) {
	ls.mu.Lock()
	c := ls.choose(x.req.XID)
	taken := c != nil && c.queue(x)
	ls.mu.Unlock()
	if !taken {
		if x.once != nil {
			ls.dups.End(x.once, nil)
		}
		ls.rc.ctr.Dropped.Add(1)
		ls.rc.finish(x)
	}
}

// choose returns the lane with the fewest calls, or nil if one has the XID already. The caller
// holds ls.mu.
func (ls *lanes) choose(xid uint32) (least *recordConn) {
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
func (ls *lanes) leave(c *recordConn) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	i := slices.Index(ls.open, c)
	if n, _ := c.load(0); i < 0 || n > 0 || len(ls.open) == 1 {
		return false
	}
	ls.open = slices.Delete(ls.open, i, i+1)
	return true
}

// ended tells all lanes that no more calls will come.
func (ls *lanes) ended(err error) {
	ls.at.End()
	ls.stop()
	for _, c := range ls.all {
		c.ended(err)
	}
}
