package replies_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport/internal/rendezvous"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// The server restarts while a reply is held. Either its record has arrived before that, or
// it never comes, and the caller is told; the next call has one again.
func TestServerRestart(t *testing.T) {
	first := start(t, &replies.Pusher{})
	second := start(t, &replies.Pusher{})
	addr := make(chan string, 1)
	addr <- first.rpc
	mem, f := faulty(1 << 14)
	created(t, mem)
	c := open(t, mem, func() string { a := <-addr; addr <- a; return a })
	defer c.Close()
	if seq, _, err := double(t.Context(), c, 1); seq != 1 || err != nil {
		t.Fatal(seq, err)
	}
	entered, release := f.Hang(pmem.OpPersist)
	var seq2 uint64
	var xid2 uint32
	held := make(chan error, 1)
	go func() {
		var err error
		seq2, xid2, err = double(t.Context(), c, 2)
		held <- err
	}()
	<-entered
	var reply rpc.Reply // comes behind the one that is held
	if _, err := c.Call(t.Context(), &rpc.Call{Prog: program, Vers: 1, Proc: 2}, &reply); err != nil {
		t.Fatal(err)
	}
	reply.Release()
	<-addr
	addr <- second.rpc
	first.stop()
	release()
	seq, _, err := double(t.Context(), c, 3)
	if seq == 0 || err != nil {
		t.Fatal(seq, err)
	}
	err = <-held
	if err != nil && !errors.Is(err, replies.ErrNotKept) {
		t.Fatal(err)
	}
	_ = c.Close()
	after := open(t, pmemtest.OpenSim(mem.Told().Durable(), nil), func() string { return "127.0.0.1:1" })
	defer after.Close()
	there := false
	for _, r := range after.Recovered() {
		there = there || r.Seq == seq2 && r.XID == xid2
	}
	if there != (err == nil) {
		t.Errorf("record %d exists: %v, but its call has returned %v", seq2, there, err)
	}
}

// Another host cannot have the replies of a client, with its key or without; a token is
// good once; what nobody connects is forgotten, and one host cannot have all places.
func TestOffer(t *testing.T) {
	p := &replies.Pusher{MaxClients: 16, Addr: ":1"}
	p.SetTimes(time.Millisecond, 0)
	defer p.Close()
	ctx, cancel := context.WithCancel(t.Context())
	r := ask(ctx, p, "rdma", "192.0.2.1:1", offerArgs{Client: key{1}})
	if r.Status != statusConnect || r.At.Addr != ":1" {
		t.Fatal(r)
	}
	if r := ask(ctx, p, "rdma", "192.0.2.2:1", offerArgs{Client: key{1}}); r != (offerRes{Status: statusBusy}) {
		t.Error("another host:", r)
	}
	again := ask(ctx, p, "rdma", "192.0.2.1:2", offerArgs{Client: key{1}})
	if again.Life != r.Life || again.At.Token == r.At.Token {
		t.Error(again, r)
	}
	if r := ask(ctx, p, "rdma", "192.0.2.1:3", offerArgs{Client: key{2}}); r.Status != statusConnect {
		t.Error(r)
	}
	if r := ask(ctx, p, "rdma", "192.0.2.1:4", offerArgs{Client: key{3}}); r.Status != statusBusy {
		t.Error("more than its share:", r)
	}
	if r := ask(ctx, p, "tcp", "192.0.2.9:1", offerArgs{}); r.Status != statusBusy {
		t.Error("not RDMA:", r)
	}
	cancel()
	for {
		if clients, hosts, _ := p.Left(); clients+hosts == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// A connection without a token is rejected, and one that is silent afterwards ended.
func TestSilentLog(t *testing.T) {
	p := &replies.Pusher{}
	p.SetTimes(0, 50*time.Millisecond)
	w := start(t, p)
	knock := func(data []byte) (*rdmap.Conn, error) {
		nc, err := net.Dial("tcp", w.pusher.Addr)
		if err != nil {
			t.Fatal(err)
		}
		c := rdmap.Client(nc, &rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.ExtCommit, PrivateData: data}})
		t.Cleanup(func() { c.Abort(nil) })
		return c, c.Handshake(t.Context())
	}
	if _, err := knock(nil); err == nil {
		t.Error("no token")
	}
	for { // a busy machine may let a token grow old
		old := ask(t.Context(), w.pusher, "rdma", "127.0.0.1:1", offerArgs{Client: key{1}})
		r := ask(t.Context(), w.pusher, "rdma", "127.0.0.1:1", offerArgs{Client: key{1}})
		if _, err := knock(rendezvous.PrivateData(old.At.Token)); err == nil {
			t.Error("the token of an earlier offer")
		}
		c, err := knock(rendezvous.PrivateData(r.At.Token))
		if err != nil {
			continue
		}
		select {
		case <-c.Done():
		case <-time.After(time.Minute):
			t.Error("it is still there")
		}
		return
	}
}

// Any octets as arguments: an answer, or GARBAGE_ARGS.
func FuzzServe(f *testing.F) {
	a := offerArgs{Client: key{1}, Epoch: 1}
	f.Add(uint32(procOffer), xdr.Encode(nil, &a))
	f.Add(uint32(procNull), []byte{})
	p := &replies.Pusher{Handler: &program1{}}
	f.Cleanup(func() { _ = p.Close() })
	f.Fuzz(func(t *testing.T, proc uint32, args []byte) {
		h := xdr.CallHeader{XID: 1, RPCVers: xdr.RPCVersion, Prog: replies.Program, Vers: replies.Version, Proc: proc}
		reply, ok := rpc.ServeMessage(t.Context(), p, from("192.0.2.1:1"), append(xdr.AppendCall(nil, &h), args...), nil)
		d := xdr.NewDecoder(reply)
		var r xdr.ReplyHeader
		if err := r.Parse(&d); !ok || err != nil || r.Denied {
			t.Fatalf("%v %+v %v", ok, r, err)
		}
	})
}
