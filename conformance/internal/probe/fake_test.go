package probe_test

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// fake is a server that answers NULL calls, and does what a test wants about anything
// else. It checks next to nothing below RPC-over-RDMA.
type fake struct {
	bad     func(f *fake, c *fakeConn) // what it does about input that is not good
	any     bool                       // answers SUCCESS to whatever has an XID
	startup bool                       // accepts all Requests
	blind   bool                       // does not check CRCs
	mute    bool                       // serves nobody while a connection is inside an FPDU
	silent  bool                       // does not answer at all what bad is about

	l     net.Listener
	turn  sync.Mutex // of a mute one
	mu    sync.Mutex
	conns []*fakeConn
	wg    sync.WaitGroup
}

type fakeConn struct {
	net.Conn
	*rdmaptest.Peer

	xid  uint32 // of the call that was not good
	deaf bool   // answers no more calls
}

// start serves until the test ends.
func (f *fake) start(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.l = l
	f.wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			c := &fakeConn{Conn: nc}
			f.mu.Lock()
			f.conns = append(f.conns, c)
			f.mu.Unlock()
			f.wg.Go(func() { f.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		f.closeAll()
		f.wg.Wait()
	})
	return l.Addr().String()
}

// closeAll closes all connections.
func (f *fake) closeAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		c.Conn.Close()
	}
}

// hangUp ends c in order: a Close would reset it where octets of the probe are unread, or
// yet to come.
func (c *fakeConn) hangUp() {
	_ = c.Conn.(*net.TCPConn).CloseWrite() // the probe may be gone
	_, _ = io.Copy(io.Discard, c.Conn)
}

// die is the end of the process.
func (f *fake) die(*fakeConn) {
	f.l.Close()
	f.closeAll()
}

// request reads the MPA Request. It is bad when the error is one of its format.
func (f *fake) request(c *fakeConn) (r mpa.Request, err error) {
	var in []byte
	for {
		var b [1]byte
		if _, err := c.Read(b[:]); err != nil {
			return r, err
		}
		in = append(in, b[0])
		if r, n, err := mpa.ParseRequest(in); n > 0 || err != nil {
			return r, err
		}
	}
}

func (f *fake) serve(c *fakeConn) {
	r, err := f.request(c)
	if _, malformed := errors.AsType[*mpa.FormatError](err); malformed && !f.startup {
		f.bad(f, c)
		return
	}
	rep := mpa.Reply{Frame: mpa.Frame{Rev: max(r.Rev, 1), CRC: true, Enhanced: r.Enhanced, Word: mpa.Enhanced{IRD: r.Word.ORD, ORD: r.Word.IRD}}}
	b, _ := rep.Append(nil)
	if _, err := c.Write(b); err != nil {
		return
	}
	c.Peer = rdmaptest.NewPeer(c.Conn, &mpa.Negotiation{CRC: !f.blind})
	c.CRC = true
	for {
		s, body, err := f.next(c)
		var format *mpa.Error
		switch {
		case errors.As(err, &format):
			f.bad(f, c)
			return
		case err != nil:
			return
		case !s.Tagged && s.QN == ddp.QNSend:
			f.send(c, body)
		}
	}
}

// next reads a segment: a mute one lets nobody else read once it has begun.
func (f *fake) next(c *fakeConn) (ddp.Segment, []byte, error) {
	if !f.mute {
		return c.NextSegment()
	}
	var b [1]byte
	if _, err := c.Conn.Read(b[:]); err != nil {
		return ddp.Segment{}, nil, err
	}
	f.turn.Lock()
	defer f.turn.Unlock()
	c.Peer.Conn = &first{c.Conn, b[:]}
	return c.NextSegment()
}

// first is a connection of which some octets have been read.
type first struct {
	net.Conn
	b []byte
}

func (f *first) Read(p []byte) (int, error) {
	if n := copy(p, f.b); n > 0 {
		f.b = f.b[n:]
		return n, nil
	}
	return f.Conn.Read(p)
}

// send answers a Send.
func (f *fake) send(c *fakeConn, body []byte) {
	var h rpcrdma.Header
	n, err := h.Decode(body, nil)
	if c.deaf {
		return
	}
	if f.any && len(body) >= 4 || err == nil && h.Type == rpcrdma.MsgTypeMsg && h.Empty() && good(&h, body[n:]) {
		c.reply(h.XID)
		return
	}
	c.xid = h.XID
	f.bad(f, c)
}

// good says whether msg is a NULL call.
func good(h *rpcrdma.Header, msg []byte) bool {
	var call xdr.CallHeader
	d := xdr.NewDecoder(msg)
	return call.Parse(&d) == nil && call.XID == h.XID && call.Proc == 0 && call.Prog == 100003 && call.Vers == 3 && call.RPCVers == 2 && call.Cred.Flavor == 0
}

func (c *fakeConn) reply(xid uint32) {
	h := rpcrdma.Header{XID: xid, Vers: 1, Credit: 32, Lists: chunks.Lists{}}
	c.post(xdr.AppendReply(h.Append(nil), &xdr.ReplyHeader{XID: xid}))
}

// refuse answers the call that was not good.
func (c *fakeConn) refuse(credit uint32) {
	h := rpcrdma.Header{XID: c.xid, Vers: 1, Credit: credit, Type: rpcrdma.MsgTypeError, Err: rpcrdma.ErrChunk}
	c.post(h.Append(nil))
}

func (c *fakeConn) post(msg []byte) {
	_ = c.SendSegment(c.Untagged(3, ddp.QNSend), msg) // the peer may be gone
}
