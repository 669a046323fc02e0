package rpcrdma_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// pair is a requester and a responder of one connection, with the memory of the
// client between them. Sends above what the receiver posted fail the test.
type pair struct {
	t           testing.TB
	q           *rpcrdma.Requester
	p           *rpcrdma.Responder
	call, reply int // receive sizes of server and client
	mem         *memory
	segs        func() int // segments of the next registration
	forms       map[rpcrdma.Form]int
	in          rpcrdma.Inbound
	out         rpcrdma.Reply
}

func newPair(t testing.TB, client, server rpcrdma.PrivateData, gather int) *pair {
	said := func(p rpcrdma.PrivateData) rpcrdma.PrivateData {
		p, _ = rpcrdma.ParsePrivateData(p.Append(nil))
		return p
	}
	qs, qr := client.Inline(said(server))
	ps, _ := server.Inline(said(client))
	return &pair{
		t: t, forms: map[rpcrdma.Form]int{}, segs: func() int { return 1 },
		q:    made(rpcrdma.NewRequester(rpcrdma.RequesterConfig{SendSize: qs, RecvSize: qr, GatherMin: gather, Binding: chunks.NFSv3})),
		p:    newResponder(rpcrdma.ResponderConfig{SendSize: ps, GatherMin: gather, RemoteInvalidate: server.MayInvalidate(client)}),
		call: max(server.RecvSize, 1024), reply: max(client.RecvSize, 1024),
	}
}

// outcome is what the client has in the end.
type outcome struct {
	result rpcrdma.Result
	whole  []byte // RPC results, the sink's data put back
}

// do makes one call with results made by serve and compares what each side sees
// with what the other had. It returns the outcome.
func (c *pair) do(call *rpcrdma.Call, sink []byte, serve func(in *rpcrdma.Inbound) *chunks.Message) outcome {
	t := c.t
	t.Helper()
	c.mem = newMemory(t)
	noErr(t, c.q.Plan(call))
	c.forms[call.Plan.Form]++
	replyMem := make([]byte, call.Plan.Reply)
	m := &call.Memory
	if call.Plan.Arg {
		m.Arg = c.mem.offer(m.Arg[:0], call.Message.Items[0].Data, c.segs())
	}
	if call.Plan.Stream > 0 {
		m.Stream = c.mem.offer(m.Stream[:0], call.AppendStream(nil), c.segs())
	}
	m.Sink = c.mem.offer(m.Sink[:0], sink, c.segs())
	m.Reply = c.mem.offer(m.Reply[:0], replyMem, c.segs())
	noErr(t, c.q.Begin(call))
	head, body, err := c.q.AppendCall(nil, call)
	if err != nil {
		t.Fatal(err)
	}
	send := append(head, body...)
	if len(send) > c.call {
		t.Fatalf("a call of %d octets, the server posted %d", len(send), c.call)
	}

	v := c.p.Receive(send, &c.in)
	post(c.p)
	if v == rpcrdma.Pull {
		v = c.p.Pulled(&c.in, c.mem.pull(&c.in))
	}
	if v == rpcrdma.Answer {
		send = c.p.AppendAnswer(nil, &c.in)
	} else {
		if v != rpcrdma.Dispatch {
			t.Fatal(v, c.in.Err)
		}
		if got, want := c.in.Args, call.Message.Append(nil, 0)[40:]; !bytes.Equal(got, want) {
			t.Fatalf("the server sees arguments\n     %x\nwant %x", got, want)
		}
		c.p.Reply(nil, &c.in, serve(&c.in), &c.out)
		c.mem.write(c.out.Writes)
		send = append(c.out.Head, c.out.Body...)
		if c.out.HasInvalidate && !call.Offers(c.out.Invalidate) {
			t.Fatalf("%v invalidated, never offered", c.out.Invalidate)
		}
	}
	if len(send) > c.reply {
		t.Fatalf("a reply of %d octets, the client posted %d", len(send), c.reply)
	}
	noErr(t, c.p.Credits().Check())

	got, err := c.q.Receive(send)
	if got != call {
		t.Fatalf("not answered: %v", err)
	}
	o := outcome{}
	_ = c.q.CheckReply(call, replyMem)
	o.result = call.Result
	if res := &o.result; res.Err == nil {
		msg := chunks.Message{Body: res.Results}
		if res.Placed {
			msg.Items = []chunks.Item{{Pos: res.ItemPos, Data: sink[:res.ItemLen]}}
		}
		o.whole = msg.Append(nil, 0)
	}
	return o
}

// randomCall is a WRITE, READ, READDIR or a call with long arguments, and what
// the server returns.
func randomCall(rng *rand.Rand, xid uint32) (call *rpcrdma.Call, sink []byte, reply chunks.Message) {
	call = &rpcrdma.Call{XID: xid, Prog: 100003, Vers: 3, MaxReply: 24 + 136}
	args := xdr.AppendOpaque(nil, ramp(rng.IntN(65), 1))
	reply.Head = rpcReply(xid)
	size := rng.IntN(1200)
	if rng.IntN(3) == 0 {
		size = rng.IntN(20000)
	}
	switch rng.IntN(4) {
	case 0: // WRITE
		call.Proc = 7
		args = append(args, make([]byte, 16)...)
		args = xdr.AppendUint32(args, uint32(size))
		call.Message.Items = []chunks.Item{{Pos: 40 + len(args), Data: ramp(size, 7)}}
		reply.Body = make([]byte, 4*rng.IntN(34))
	case 1: // READ, sometimes failed, sometimes short
		call.Proc, call.Sink, call.MaxReply = 6, size, 24+104
		sink = bytes.Repeat([]byte{0xa5}, size)
		args = append(args, make([]byte, 8)...)
		args = xdr.AppendUint32(args, uint32(size))
		if reply.Body = xdr.AppendUint32(nil, 70); rng.IntN(4) > 0 {
			n := size
			if rng.IntN(2) == 0 {
				n = rng.IntN(size + 1)
			}
			reply.Body = make([]byte, 16)
			reply.Body = xdr.AppendUint32(reply.Body, uint32(n))
			reply.Items = []chunks.Item{{Pos: 24 + len(reply.Body), Data: ramp(n, 9)}}
		}
	case 2: // READDIR
		call.Proc, call.MaxReply = 16, 24+4+size
		reply.Body = ramp((4+rng.IntN(size+1))&^3, 3)
	case 3: // long arguments, no item
		call.Proc = 8
		args = append(args, ramp(size&^3, 5)...)
	}
	if rng.IntN(2) == 0 { // both ways to hand a message over
		reply.Body, reply.Whole = reply.Append(nil, 0)[24:], true
		for i := range reply.Items {
			it := &reply.Items[i]
			it.Data = reply.Body[it.Pos-24:][:len(it.Data)]
		}
	}
	call.Message.Head, call.Message.Body = rpcCall(xid, call.Proc), args
	return call, sink, reply
}

// TestPair: whatever the thresholds, sizes and segments, the server executes the
// call that was made, the client gets the reply that was given, and no Send is
// longer than what its receiver posted.
func TestPair(t *testing.T) {
	rng := seeded(t)
	sizes := []int{0, 1024, 1500, 4096, 65536}
	forms, replies := map[rpcrdma.Form]int{}, map[rpcrdma.Form]int{}
	for range 200 {
		pick := func() int { return sizes[rng.IntN(len(sizes))] }
		client := rpcrdma.PrivateData{rng.IntN(2) == 0, pick(), pick()}
		server := rpcrdma.PrivateData{rng.IntN(2) == 0, pick(), pick()}
		c := newPair(t, client, server, rng.IntN(2)*256)
		c.forms = forms
		c.segs = func() int { return 1 + rng.IntN(2) }
		for i := range 20 {
			call, sink, reply := randomCall(rng, uint32(i))
			want := reply.Append(nil, 0)[24:]
			got := c.do(call, sink, func(*rpcrdma.Inbound) *chunks.Message { return &reply })
			replies[c.out.Form]++
			if c.out.Form == rpcrdma.FormError {
				t.Fatalf("refused: %v; %+v", c.out.Err, call)
			}
			if got.result.Err != nil || !bytes.Equal(got.whole, want) {
				t.Fatalf("%+v\n got %x\nwant %x", got.result, got.whole, want)
			}
		}
	}
	for _, f := range []rpcrdma.Form{rpcrdma.FormShort, rpcrdma.FormChunked, rpcrdma.FormLong} {
		if forms[f] == 0 || replies[f] == 0 {
			t.Errorf("%v was never used: %v, %v", f, forms, replies)
		}
	}
}
