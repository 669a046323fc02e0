package transport

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/stag-rdma/stag/transport/internal/admit"
	"github.com/stag-rdma/stag/transport/internal/stream"
	"github.com/stag-rdma/stag/transport/rpc"
)

// CallConn is the client's end of an RPC-over-RDMA connection, as a net.Conn that carries
// record-marked ONC RPC (RFC 5531 Section 11), for clients that were written for TCP. Write takes
// records of whole calls, and Read returns records of whole replies. DDP-eligible items travel in
// chunks (Config.Binding finds them, RFC 8267 Section 4); XIDs, credentials and verifiers pass
// unchanged.
//
// Write returns when its calls are on their way. It waits while the replies to Config.Credits
// calls have not been read. A call whose XID is in use is a retransmission, and is dropped: the
// first one will be answered. A call that RPC-over-RDMA cannot carry is answered with SYSTEM_ERR,
// the only way to tell a record-marked client. It is safe for concurrent use.
type CallConn struct {
	c     *Client
	slots chan struct{} // one per call whose reply was not read

	wmu   sync.Mutex
	w     stream.Assembler
	write stream.Deadline
	front *streamConn // whose calls these are, if a Relay has them from NewStreamListener
	hold  *callHold   // of the record that arrives

	mu      sync.Mutex
	pending map[uint32]struct{} // XIDs in flight
	wg      sync.WaitGroup      // its goroutines

	in stream.Queue
}

var _ net.Conn = (*CallConn)(nil)

// DialConn connects to an RPC-over-RDMA server and returns the connection as a record-marked one.
// network is "tcp", "tcp4" or "tcp6". ctx limits only the set-up. Errors are those of Dial.
func DialConn(ctx context.Context, network, addr string, cfg *Config) (*CallConn, error) {
	c, err := Dial(ctx, network, addr, cfg)
	if err != nil {
		return nil, err
	}
	return NewCallConn(c), nil
}

// NewCallConn takes c and returns it as a record-marked connection.
func NewCallConn(c *Client) *CallConn {
	cc := &CallConn{c: c, slots: make(chan struct{}, c.cfg.Credits), pending: make(map[uint32]struct{})}
	cc.w.Max = c.cfg.MaxPayload
	cc.in.Init(func() { <-cc.slots })
	cc.wg.Go(func() {
		<-c.req.Over()
		cc.in.Fail(c.req.Err())
	})
	return cc
}

// Read returns octets of the records of replies. io.EOF means that the server has closed the
// connection in an orderly way.
func (cc *CallConn) Read(p []byte) (int, error) {
	n, err := cc.in.Read(p)
	if err != nil && !rpc.Ended(err) {
		err = cc.opErr("read", err)
	}
	return n, err
}

// Write takes octets of the records of calls, and sends each call that is complete. It copies the
// octets. If a record is not an RPC call, Write returns an error and the connection is closed.
func (cc *CallConn) Write(p []byte) (int, error) {
	cc.wmu.Lock()
	defer cc.wmu.Unlock()
	done := 0
	for done < len(p) {
		n, rec, err := cc.w.Add(p[done:])
		done += n
		if rec != nil {
			err = cc.call(rec)
		}
		if err != nil {
			return done, cc.opErr("write", err)
		}
	}
	return done, nil
}

// holdFor makes calls wait for memory of the listener that front is from.
func (cc *CallConn) holdFor(front *streamConn) {
	cc.wmu.Lock()
	defer cc.wmu.Unlock()
	cc.front, cc.w.Check = front, cc.admit
}

// admit waits for memory for a record of n octets. The caller holds cc.wmu.
func (cc *CallConn) admit(_ []byte, n int) (int, error) {
	h := &callHold{c: cc.front, t: cc.front.peer.Ticket()}
	cc.hold = h
	if err := cc.take(h, admit.CallCost+n); err != nil {
		return 0, err
	}
	h.awaits(admit.Arriving)
	return cc.w.Max, nil
}

// take waits until h holds n octets more.
func (cc *CallConn) take(h *callHold, n int) error {
	if h == nil || h.take(n, cc.c.req.Over(), cc.write.Passed()) {
		return nil
	}
	if err := cc.c.req.Err(); err != nil {
		return err
	}
	return os.ErrDeadlineExceeded
}

// call starts the call in rec, which it takes.
func (cc *CallConn) call(rec *stream.Record) error {
	o := &forwardedCall{cc: cc, rec: rec, hold: cc.hold}
	cc.hold = nil
	o.hold.awaits(admit.Still)
	if err := o.parse(cc.c.cfg.Binding); err != nil {
		o.dropped()
		cc.c.conn.Abort(err)
		return err
	}
	err := cc.take(o.hold, o.replyOctets())
	if err == nil {
		err = cc.slot()
	}
	if err != nil {
		o.dropped()
		return err
	}
	cc.mu.Lock()
	_, twice := cc.pending[o.call.Resend.XID]
	cc.pending[o.call.Resend.XID] = struct{}{}
	cc.mu.Unlock()
	if twice {
		<-cc.slots
		o.dropped()
		cc.c.ctr.Dropped.Add(1)
		return nil
	}
	cc.wg.Go(o.do)
	return nil
}

// slot waits until one more call may be made.
func (cc *CallConn) slot() error {
	select {
	case <-cc.c.req.Over():
		return cc.c.req.Err()
	case <-cc.write.Passed():
		return os.ErrDeadlineExceeded
	default:
	}
	select {
	case cc.slots <- struct{}{}:
		return nil
	case <-cc.c.req.Over():
		return cc.c.req.Err()
	case <-cc.write.Passed():
		return os.ErrDeadlineExceeded
	}
}

// answer queues a reply for Read and ends its call, whose memory h holds until the reply has been read.
func (cc *CallConn) answer(xid uint32, rec stream.Record, h *callHold) {
	if h != nil {
		rec.Done = h.release
		h.awaits(admit.Leaving)
	}
	cc.mu.Lock()
	delete(cc.pending, xid)
	cc.mu.Unlock()
	cc.in.Push(rec)
}

// Close closes the connection. Calls in flight get no reply.
func (cc *CallConn) Close() error {
	err := cc.c.Close()
	cc.in.Fail(net.ErrClosed)
	cc.wg.Wait()
	cc.in.Drop()
	cc.wmu.Lock()
	defer cc.wmu.Unlock()
	cc.w.Drop()
	cc.hold.release()
	return err
}

// Stats returns the counters of the connection.
func (cc *CallConn) Stats() rpc.Stats { return cc.c.Stats() }

// opErr converts err to the form that net.Conn's methods return.
func (cc *CallConn) opErr(op string, err error) error {
	if _, ok := errors.AsType[*rpc.OpError](err); ok {
		return err
	}
	return &net.OpError{Op: op, Net: "rdma", Source: cc.LocalAddr(), Addr: cc.RemoteAddr(), Err: err}
}

// LocalAddr returns the local address of the underlying connection.
func (cc *CallConn) LocalAddr() net.Addr { return cc.c.conn.LocalAddr() }

// RemoteAddr returns the server's address.
func (cc *CallConn) RemoteAddr() net.Addr { return cc.c.conn.RemoteAddr() }

// SetDeadline sets both deadlines.
func (cc *CallConn) SetDeadline(t time.Time) error {
	cc.in.Deadline.Set(t)
	cc.write.Set(t)
	return nil
}

// SetReadDeadline sets the deadline of Read.
func (cc *CallConn) SetReadDeadline(t time.Time) error {
	cc.in.Deadline.Set(t)
	return nil
}

// SetWriteDeadline sets the deadline of Write.
func (cc *CallConn) SetWriteDeadline(t time.Time) error {
	cc.write.Set(t)
	return nil
}
