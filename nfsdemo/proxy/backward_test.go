package proxy_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/proxy"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// cbProgram is the callback program of NFSv4 (RFC 8881 Section 20).
const cbProgram = 0x40000000

// TestBackChannel: a TCP server calls its client on the connection that the client has
// made, as NFSv4.1 servers do; through the proxy the call reaches a client on RDMA.
func TestBackChannel(t *testing.T) {
	back := listen(t)
	front := listen(t)
	p := &proxy.Proxy{
		Config: &transport.Config{Backward: transport.Backward{Credits: 4}},
		Dial: func(ctx context.Context, h rpc.Handler) (proxy.Server, error) {
			return transport.DialStream(ctx, "tcp", back.Addr().String(), &transport.Config{Backward: transport.Backward{Credits: 4, Handler: h}})
		},
	}
	served := make(chan error, 1)
	go func() { served <- p.Serve(front) }()
	defer func() {
		p.Close()
		<-served
	}()
	cfg := &transport.Config{Backward: transport.Backward{Credits: 4, Handler: rpc.HandlerFunc(
		func(_ context.Context, req *rpc.Request, resp *rpc.Response) {
			if req.Prog != cbProgram {
				resp.Stat = xdr.ProgUnavail
			}
			resp.Results = append(resp.Results, req.Args...)
		})}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := must(transport.Dial(ctx, "tcp", front.Addr().String(), cfg))(t)
	defer c.Close()
	got := make(chan error, 1)
	go func() {
		var reply rpc.Reply
		defer reply.Release()
		got <- c.Do(ctx, &rpc.Call{Prog: 100003, Vers: 4}, &reply)
	}()

	s := accept(t, back)
	in := xdr.NewRecordReader(s, 1<<16)
	call := must(in.Next(nil))(t)
	xid, _, _ := xdr.PeekXID(call)
	cb := xdr.CallHeader{XID: xid, RPCVers: xdr.RPCVersion, Prog: cbProgram, Vers: 1, Proc: 1} // the same XID
	writeRecord(t, s, xdr.AppendUint32(xdr.AppendCall(nil, &cb), 4711))
	msg := must(in.Next(nil))(t)
	var h xdr.ReplyHeader
	d := xdr.NewDecoder(msg)
	if err := h.Parse(&d); err != nil || h.XID != xid || h.Err() != nil || d.Uint32() != 4711 {
		t.Errorf("%v, %+v", err, h)
	}
	writeRecord(t, s, xdr.AppendReply(nil, &xdr.ReplyHeader{XID: xid}))
	if err := <-got; err != nil {
		t.Error(err)
	}
	if st := p.Stats(); st.BackwardCalls != 1 || st.BackwardReplies != 1 {
		t.Errorf("%+v", st)
	}
}

func writeRecord(t *testing.T, c net.Conn, msg []byte) {
	t.Helper()
	must(c.Write(append(xdr.AppendRecordMark(nil, len(msg), true), msg...)))(t)
}
