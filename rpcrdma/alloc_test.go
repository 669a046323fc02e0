package rpcrdma_test

import (
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
)

// TestAllocs: a call and its reply allocate nothing on either side once warm:
// NULL, WRITE by chunk, READ by chunk, and a long call with a long reply.
func TestAllocs(t *testing.T) {
	q := made(rpcrdma.NewRequester(rpcrdma.RequesterConfig{Binding: chunks.NFSv3}))
	p := newResponder(rpcrdma.ResponderConfig{Binding: chunks.NFSv3, RemoteInvalidate: true})
	var call rpcrdma.Call
	var in rpcrdma.Inbound
	var out rpcrdma.Reply
	send, back := make([]byte, 0, 4096), make([]byte, 0, 4096)
	items := make([]chunks.Item, 1)
	buf := make([]byte, 64<<10)

	round := func(set func(c *rpcrdma.Call), reply *chunks.Message) func() {
		return func() {
			call.Reset()
			set(&call)
			must(t, q.Plan(&call) == nil)
			reg := func(c chunks.WriteChunk, n int) chunks.WriteChunk { return append(c[:0], segment(7, uint32(n), 0)) }
			call.Memory.Stream = reg(call.Memory.Stream, call.Plan.Stream)
			call.Memory.Sink = reg(call.Memory.Sink, call.Sink)
			call.Memory.Reply = reg(call.Memory.Reply, call.Plan.Reply)
			if call.Plan.Arg {
				call.Memory.Arg = reg(call.Memory.Arg, len(items[0].Data))
			}
			must(t, q.Begin(&call) == nil)
			head, _, err := q.AppendCall(send[:0], &call)
			must(t, err == nil)
			v := p.Receive(head, &in)
			post(p)
			if v == rpcrdma.Pull {
				in.Layout.Place(buf, in.Payload)
				if in.Layout.Long {
					call.AppendStream(buf[:0])
				}
				v = p.Pulled(&in, buf)
			}
			must(t, v == rpcrdma.Dispatch)
			p.Reply(back[:0], &in, reply, &out)
			must(t, out.Err == nil)
			c, err := q.Receive(out.Head)
			must(t, c == &call && err == nil && call.Result.Err == nil)
		}
	}
	rpc := map[uint32][]byte{0: rpcCall(9, 0), 6: rpcCall(9, 6), 7: rpcCall(9, 7)}
	writeBody := callWith(7, nil, writeArgs(8192)...)[68:]
	set := func(proc uint32, f func(c *rpcrdma.Call)) func(*rpcrdma.Call) {
		return func(c *rpcrdma.Call) {
			c.XID, c.Prog, c.Vers, c.Proc = 9, 100003, 3, proc
			c.Message.Head = rpc[proc]
			f(c)
		}
	}
	null := &chunks.Message{Head: rpcReply(9)}
	read := &chunks.Message{
		Head: rpcReply(9), Body: unhex(t, "00000000 00000000 00002000 00000001 00002000"),
		Items: []chunks.Item{{Pos: 44, Data: make([]byte, 8192)}},
	}
	long := &chunks.Message{Head: rpcReply(9), Body: make([]byte, 4096)}
	longBody := make([]byte, 4096)
	for name, f := range map[string]func(){
		"NULL": round(set(0, func(*rpcrdma.Call) {}), null),
		"WRITE": round(set(7, func(c *rpcrdma.Call) {
			items[0] = chunks.Item{Pos: 68, Data: read.Items[0].Data}
			c.Message.Body, c.Message.Items = writeBody, items
		}), null),
		"READ": round(set(6, func(c *rpcrdma.Call) { c.Sink, c.MaxReply = 8192, 128 }), read),
		"long": round(set(0, func(c *rpcrdma.Call) { c.Message.Body, c.MaxReply = longBody, 5000 }), long),
	} {
		f()
		if got := testing.AllocsPerRun(100, f); got != 0 {
			t.Errorf("%s: %v allocations, want 0", name, got)
		}
	}
}

func must(t *testing.T, ok bool) {
	if !ok {
		t.Helper()
		t.Fatal("a step failed")
	}
}
