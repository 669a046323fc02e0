package transport

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/xdr"
)

// streamConn is the server's end of a record-marked connection. One goroutine reads and runs short
// calls; the others have goroutines of their own.
type streamConn struct {
	s     *Server
	conn  net.Conn
	at    *origin
	input io.Reader // conn, after the octets that were read from it before
	w     *recordWriter
	slots chan struct{} // one per call in flight
	wg    sync.WaitGroup
	both  bool   // RDMA may be enabled between two records
	ahead []byte // octets that were read after the last record, if so

	backward Backward
	waiting  atomic.Int64 // at a client: backward calls received and not answered

	mu       sync.Mutex
	draining bool
	gone     bool
	caller   *StreamClient // of the backward direction, once it was used
}

// ServeStreamConn takes conn and serves record-marked RPC on it until the stream ends and all
// calls are answered. It returns nil if the peer ends the stream in an orderly way.
func (s *Server) ServeStreamConn(conn net.Conn) error {
	if err := s.init(); err != nil {
		_ = conn.Close() // the error above says more
		return err
	}
	return s.serveStreamConn(s.newStreamConn(conn, nil))
}

// newStreamConn prepares a connection from which the octets in first have been read.
func (s *Server) newStreamConn(conn net.Conn, first []byte) *streamConn {
	c := &streamConn{s: s, conn: conn, w: &recordWriter{conn: conn}, slots: make(chan struct{}, s.cfg.Credits)}
	if s.cfg.BackwardCredits > 0 {
		c.backward.owner = c
	}
	c.input = conn
	if len(first) > 0 {
		c.input = io.MultiReader(bytes.NewReader(first), conn)
	}
	return c
}

// serveStreamConn serves c until its stream ends, or until RDMA is enabled; then the error is errToRDMA.
func (s *Server) serveStreamConn(c *streamConn) error {
	keep := false
	defer func() {
		if !keep {
			_ = c.conn.Close() // all replies were sent
		}
	}()
	cl, err := s.door.enter(c.conn.RemoteAddr())
	if err != nil {
		return opErr(OpAccept, addrOf(c.conn), err)
	}
	defer s.door.leave(cl)
	if err := s.addConn(c); err != nil {
		return err
	}
	s.ctr.accepted.Add(1)
	defer s.dropConn(c)
	c.at = s.came.enter(c.conn)
	defer s.came.leave(c.at)
	gone := s.door.came(addrOf(c.conn), "tcp")
	err = c.read()
	if e, ok := errors.AsType[*net.OpError](err); ok && !e.Timeout() {
		c.at.end()
	}
	c.endBackward(err)
	c.wg.Wait()
	switch {
	case c.isDraining():
		gone(ErrServerClosed)
		return nil
	case errors.Is(err, errToRDMA):
		gone(err)
		keep = true
		return err
	}
	err = s.ctr.ended(opErr(OpServe, addrOf(c.conn), ignoreEnd(err)))
	gone(err)
	return err
}

// streamCall is one call from its record to its reply.
type streamCall struct {
	c   *streamConn
	b   *buffer // the record
	req Request
	rsp *Response
}

// received parses a record, which it takes, as a call. It returns nil if it is none.
func (c *streamConn) received(b *buffer, msg []byte) *streamCall {
	x := &streamCall{c: c, b: b, rsp: responses.get()}
	x.req = Request{RemoteAddr: c.conn.RemoteAddr(), Network: "tcp", backward: c.backward.ifOn()}
	if parseCall(&x.req, x.rsp, c.s.cfg, msg) != nil {
		c.s.ctr.dropped.Add(1) // RFC 5531 Section 9 has no reply to this
		x.end()
		return nil
	}
	c.s.ctr.calls.Add(1)
	c.s.ctr.inFlight.Add(1)
	return x
}

// serve runs the call and sends its reply.
func (x *streamCall) serve() {
	s := x.c.s
	begun := time.Now()
	answer := s.execute(s.ctx, &x.req, x.rsp, x.c.at)
	x.pace().ran(time.Since(begun), s.cfg.HandlerGrace)
	if answer {
		x.c.reply(x.req.XID, x.rsp)
	}
	s.ctr.inFlight.Add(-1)
	x.end()
}

func (x *streamCall) pace() *pace { return x.c.s.paceOf(&x.req) }

// end releases what a call holds.
func (x *streamCall) end() {
	responses.put(x.rsp)
	x.b.release()
	<-x.c.slots
	x.c.wg.Done()
}

// reply sends the reply's record; an error of the socket ends the connection.
func (c *streamConn) reply(xid uint32, resp *Response) {
	hb := shared.get(minInline)
	defer hb.release()
	h := resp.header(xid)
	head := xdr.AppendReply(hb.data[:0], &h)
	c.s.ctr.replies.Add(1) // first: the client may act on it before write returns
	var n int
	var err error
	switch {
	case resp.hasResults() && len(resp.items) == 1: // send the data without a copy
		it := resp.items[0]
		head = append(head, resp.Results[:it.pos]...)
		n, err = c.w.write(head, it.data, padOf(it.data), resp.Results[it.pos:])
	default:
		n, err = c.w.write(resp.appendAll(head), nil, nil, nil)
	}
	if err != nil {
		c.s.ctr.errors.Add(1)
		c.at.end()
		_ = c.conn.Close() // ends the reading goroutine, which reports
		return
	}
	c.s.ctr.inline.Add(uint64(n))
}

func (c *streamConn) isDraining() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.draining
}

// drain stops reading; calls that have been read are answered.
func (c *streamConn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = true
	_ = c.conn.SetReadDeadline(time.Unix(1, 0)) // fails only on a closed connection
}

// abort closes the connection.
func (c *streamConn) abort() { _ = c.conn.Close() }
