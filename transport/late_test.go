package transport_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// A call that waits for its turn when its connection is reset is not executed: nobody is there to be
// answered.
func TestCallOfDeadConnection(t *testing.T) {
	var ran atomic.Int32
	begun, gate := make(chan struct{}), make(chan struct{})
	s := &transport.Server{
		Handler: rpc.HandlerFunc(func(_ context.Context, req *rpc.Request, _ *rpc.Response) {
			if ran.Add(1) == 1 {
				close(begun)
				<-gate
			}
		}),
		Config: &transport.Config{Credits: 1, Reading: transport.Reading{HandlerLimit: -1}}, // one call at a time
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.ServeStream(l) }()
	defer func() { _ = s.Close(); <-served }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	var b []byte
	for xid := range uint32(2) {
		call := xdr.AppendCall(nil, &xdr.CallHeader{XID: xid, RPCVers: 2, Prog: 400_000, Vers: 1, Proc: 1})
		b = append(xdr.AppendRecordMark(b, len(call), true), call...)
	}
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
	<-begun
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
	close(gate)
	waitUntil(t, "the connection has ended", func() bool { return s.Stats().Connections == 0 })
	if st := s.Stats(); ran.Load() != 1 || st.Late > 1 {
		t.Errorf("%d calls were executed, %+v", ran.Load(), st)
	}
}
