package backendtest

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/internal/accept"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Listen serves s until the test ends, over RDMA or over TCP, and returns the URL of the export.
func (s *Liar) Listen(t testing.TB, rdma bool) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	stop := l.Close
	scheme := "nfs://"
	switch ts := (&transport.Server{Handler: s}); {
	case rdma:
		scheme = "nfs+rdma://"
		if s.Strays {
			wg.Go(func() { eachConn(l, s.rdma) })
			break
		}
		stop = ts.Close
		wg.Go(func() { _ = ts.Serve(l) })
	case s.Strays:
		wg.Go(func() { eachConn(l, s.stream) })
	default:
		stop = ts.Close
		wg.Go(func() { _ = ts.ServeStream(l) })
	}
	t.Cleanup(func() {
		_ = stop()
		wg.Wait()
	})
	return scheme + l.Addr().String() + "/export"
}

// eachConn runs serve with each connection, until l is closed and all of them have ended.
func eachConn(l net.Listener, serve func(net.Conn)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	_ = accept.Serve(context.Background(), l, func(c net.Conn) { wg.Go(func() { serve(c) }) })
}

// stream answers calls over record-marked TCP.
func (s *Liar) stream(c net.Conn) {
	defer c.Close()
	r := xdr.NewRecordReader(c, 1<<20)
	for {
		msg, err := r.Next(nil)
		if err != nil {
			return
		}
		s.reply(msg, func(_ uint32, reply []byte) error {
			_, err := c.Write(append(binary.BigEndian.AppendUint32(nil, 1<<31|uint32(len(reply))), reply...))
			return err
		})
	}
}

// rdma answers calls over RDMA, inline.
func (s *Liar) rdma(nc net.Conn) {
	priv := rpcrdma.PrivateData{SendSize: 4096, RecvSize: 4096}.Append(nil)
	c := rdmap.Server(nc, &rdmap.Config{
		Startup:  rdmap.Startup{PrivateData: priv, Accept: func(*mpa.Request) ([]byte, error) { return priv, nil }},
		Receives: rdmap.Receives{Size: 4096, Count: 100}, Timeouts: rdmap.Timeouts{Close: time.Second},
	})
	ctx := context.Background()
	if c.Handshake(ctx) != nil {
		return
	}
	defer func() {
		c.Abort(nil)
		<-c.Done()
	}()
	for {
		m, err := c.Recv(ctx)
		if err != nil {
			return
		}
		var h rpcrdma.Header
		n, err := h.Decode(m.Data, nil)
		if err != nil {
			return
		}
		s.reply(m.Data[n:], func(xid uint32, reply []byte) error {
			h := rpcrdma.Header{XID: xid, Vers: 1, Credit: 8}
			return c.Send(ctx, append(h.Append(nil), reply...))
		})
	}
}

// reply answers one call, or sends replies to calls that nobody made until the connection ends.
func (s *Liar) reply(msg []byte, send func(xid uint32, reply []byte) error) {
	d := xdr.NewDecoder(msg)
	var req rpc.Request
	if err := req.CallHeader.Parse(&d); err != nil {
		return
	}
	req.Args = d.Rest()
	var resp rpc.Response
	s.ServeRPC(context.Background(), &req, &resp)
	form := func(xid uint32) []byte {
		return append(xdr.AppendReply(nil, &xdr.ReplyHeader{XID: xid, Accept: resp.Stat}), resp.Results...)
	}
	list := req.Prog == nfs3.Program && (nfs3.Proc(req.Proc) == nfs3.ProcReadDir || nfs3.Proc(req.Proc) == nfs3.ProcReadDirPlus)
	if !list {
		_ = send(req.XID, form(req.XID)) // the next Recv fails too
		return
	}
	for xid := req.XID + 1<<20; send(xid, form(xid)) == nil; xid++ {
		time.Sleep(time.Microsecond) // the client has the same two processors
	}
}
