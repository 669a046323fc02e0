package transport_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// halfReader takes WRITEs that must not run twice, and reads the first octets of their data only.
type halfReader struct{ ran atomic.Int32 }

func (*halfReader) Describe(req *rpc.Request) rpc.Traits {
	return rpc.Traits{Lazy: req.Proc == 7, Once: req.Proc == 7}
}

func (h *halfReader) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	if req.Proc != 7 {
		return
	}
	h.ran.Add(1)
	d := xdr.NewDecoder(req.Args)
	d.Skip(80 - 4)
	o := req.Opaque(&d, 1<<20)
	if _, err := io.ReadFull(o.Reader(ctx), make([]byte, 1000)); err != nil {
		return
	}
	resp.Results = append(resp.Results, "half"...)
}

// unread is a server of a halfReader.
type unread struct {
	*testing.T
	*halfReader
	s    *transport.Server
	addr string
}

func newUnread(t *testing.T) *unread {
	t.Helper()
	h := new(halfReader)
	s, addr := served(t, overRDMA, h, nil)
	return &unread{t, h, s, addr}
}

// message is a WRITE of data as an RPC call with XID 1.
func message(data []byte) []byte {
	c := write(data, nil)
	msg := xdr.AppendCall(nil, &xdr.CallHeader{XID: 1, RPCVers: 2, Prog: c.Prog, Vers: c.Vers, Proc: c.Proc})
	return append(append(msg, c.Args...), data...)
}

// send sends a WRITE of data, which the server has to read, on a new connection.
func (u *unread) send(data []byte) *transport.CallConn {
	u.Helper()
	c := must(transport.DialConn(u.Context(), "tcp", u.addr, &transport.Config{InlineSend: 4096}))(u)
	u.Cleanup(func() { _ = c.Close() })
	msg := message(data)
	must(c.Write(markedRecord(msg)))(u)
	return c
}

// answered waits for the reply.
func (u *unread) answered(c *transport.CallConn) {
	u.Helper()
	_ = c.SetDeadline(time.Now().Add(patience))
	rec, err := xdr.NewRecordReader(c, 1<<10).Next(nil)
	if err != nil || !bytes.HasSuffix(rec, []byte("half")) {
		u.Errorf("%q, %v", rec, err)
	}
}

func ending(last byte) []byte { return append(make([]byte, 49_999), last) }

// A handler has read a part of its data; the rest tells calls apart all the same.
func TestPartRead(t *testing.T) {
	u := newUnread(t)
	for i, x := range []struct {
		last byte
		ran  int32
	}{{'a', 1}, {'b', 2}, {'a', 2}, {'b', 2}} {
		u.answered(u.send(ending(x.last)))
		if n := u.ran.Load(); n != x.ran {
			t.Errorf("call %d: %d have run, want %d", i, n, x.ran)
		}
	}
	if st := u.s.Stats(); st.Replayed != 2 || st.Unsure != 0 || st.DRCEntries != 2 {
		t.Errorf("%+v", st)
	}
}

// offer sends a WRITE of 50,000 octets on a connection of its own, of which the server can read the first
// n. It gets no answer, and loses the connection.
func (u *unread) offer(data []byte, n int) {
	u.Helper()
	nc := must(net.Dial("tcp", u.addr))(u)
	c := rdmap.Client(nc, &rdmap.Config{
		Startup: rdmap.Startup{PrivateData: rpcrdma.PrivateData{SendSize: 4096, RecvSize: 4096}.Append(nil), IRD: 5}, Receives: rdmap.Receives{Size: 4096, Count: 9},
	})
	defer c.Abort(nil)
	noErr(u, c.Handshake(u.Context()))
	head := message(data)
	head = head[:len(head)-len(data)]
	list := []chunks.ReadSegment{{Position: uint32(len(head)), Segment: chunks.Segment{Handle: 0xdead00, Length: uint32(len(data) - n)}}}
	if n > 0 {
		r := must(c.Register(data[:n], region.RemoteRead))(u)
		first := chunks.Segment{Handle: chunks.Handle(r.STag()), Length: uint32(n)}
		list = append([]chunks.ReadSegment{{Position: uint32(len(head)), Segment: first}}, list...)
	}
	hd := rpcrdma.Header{XID: 1, Vers: 1, Credit: 4, Lists: chunks.Lists{Read: list}}
	noErr(u, c.Send(u.Context(), append(hd.Append(nil), head...)))
	if m, err := c.Recv(u.Context()); err == nil {
		u.Errorf("an answer of %d octets", len(m.Data))
	}
	waitFor(u.T, "the call has ended", func() bool { return u.s.Stats().InFlight == 0 })
}

// A call whose data cannot be read gets no answer: nobody knows whether it is the one that has run.
func TestDuplicateUnreadable(t *testing.T) {
	u := newUnread(t)
	u.answered(u.send(ending('a')))
	u.offer(ending('a'), 0)
	if st := u.s.Stats(); u.ran.Load() != 1 || st.Unsure != 1 || st.DRCEntries != 1 {
		t.Errorf("ran %d times, %+v", u.ran.Load(), st)
	}
}

// The rest of the data of a call that has run could not be read: then nobody knows which call has run,
// and none that looks like it runs or gets its reply.
func TestFirstUnreadable(t *testing.T) {
	u := newUnread(t)
	u.offer(ending('a'), 1000)
	before := u.s.Stats()
	u.send(ending('a'))
	waitFor(t, "the call has ended", func() bool { return u.s.Stats().Unsure == 1 && u.s.Stats().InFlight == 0 })
	if st := u.s.Stats(); u.ran.Load() != 1 || st.Replies != before.Replies+1 || st.DRCEntries != 1 {
		t.Errorf("ran %d times, %+v", u.ran.Load(), st)
	}
}
