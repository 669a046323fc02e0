package requester

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

type upcalls struct{ *Requester }

func (u upcalls) HandleRecv(conn *rdmap.Conn, m *verbs.Message) {
	conn.PostRecv(1)
	u.Receive(conn, m)
}

func (u upcalls) HandleClose(_ *rdmap.Conn, err error) { u.Ended(err) }

// server answers every call with an empty reply and a grant of one credit.
type server struct{}

func (server) HandleRecv(conn *rdmap.Conn, m *verbs.Message) {
	conn.PostRecv(1)
	xid := binary.BigEndian.Uint32(m.Data)
	h := rpcrdma.Header{XID: xid, Vers: rpcrdma.Version, Credit: 1, Type: rpcrdma.MsgTypeMsg}
	reply := xdr.AppendReply(h.Append(nil), &xdr.ReplyHeader{XID: xid})
	_ = conn.Post([]verbs.WR{{Op: verbs.OpSend, Head: reply}})
}

func (server) HandleClose(*rdmap.Conn, error) {}

// connect returns a requester with one credit, connected to a server.
func connect(t *testing.T) *Requester {
	t.Helper()
	a, b := rdmaptest.Pipe()
	srv := rdmap.Server(b, &rdmap.Config{Handler: server{}})
	go func() {
		if srv.Handshake(context.Background()) == nil {
			_ = srv.Serve()
		}
	}()
	c := New(Config{
		Credits: 1, InlineSend: 4096, InlineRecv: 4096, MaxPayload: 1 << 20, Binding: chunks.NFS,
		CloseTimeout: time.Second, Logger: zap.NewNop(),
	}, "server", new(memory.Counters), nil)
	conn := rdmap.Client(a, &rdmap.Config{Handler: upcalls{c}})
	c.Attach(conn)
	if err := conn.Handshake(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(4096, 4096); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestGivenUpCreditWakes: a call that has its credit and cannot be sent gives it to the one
// that waits for it, which nobody else would wake (ADVERSARY row 8).
func TestGivenUpCreditWakes(t *testing.T) {
	c := connect(t)
	p := c.newCall()
	p.prepare(c, &rpc.Call{Prog: 9, Vers: 1})
	if queued, err := c.begin(p, &rpc.Call{}); queued || err != nil {
		t.Fatal(queued, err)
	}
	behind := make(chan error, 1)
	go func() {
		var reply rpc.Reply
		defer reply.Release()
		behind <- c.Do(t.Context(), &rpc.Call{Prog: 9, Vers: 1}, &reply)
	}()
	for c.Stats().Waiting == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := c.giveUp(p, errors.New("not sent")); err == nil {
		t.Error("no error")
	}
	if err := <-behind; err != nil {
		t.Error(err)
	}
}
