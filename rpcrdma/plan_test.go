package rpcrdma_test

import (
	"errors"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
)

func TestPlan(t *testing.T) {
	// A call is 40 octets of RPC header and args octets, the item apart; the
	// transport header is 28.
	for _, c := range []struct {
		name                       string
		send, recv                 int
		args, item, sink, maxReply int
		want                       rpcrdma.Plan
	}{
		{"fits exactly", 1024, 1024, 1024 - 68, 0, 0, 0, rpcrdma.Plan{}},
		{"one word too long", 1024, 1024, 1024 - 64, 0, 0, 0, rpcrdma.Plan{Form: rpcrdma.FormLong, Stream: 1024 - 24}},
		{"small item inline", 1024, 1024, 56, 508, 0, 0, rpcrdma.Plan{}},
		{"small item that fits exactly", 1024, 1024, 1024 - 68 - 200, 200, 0, 0, rpcrdma.Plan{}},
		{"small sink that fits exactly", 1024, 1024, 0, 0, 400, 1024 - 28 - 400, rpcrdma.Plan{}},
		{"item of half the threshold", 1024, 1024, 56, 512, 0, 0, rpcrdma.Plan{Form: rpcrdma.FormChunked, Arg: true}},
		{"item that would fit without its pad", 1024, 1024, 1024 - 68 - 200, 201, 0, 0, rpcrdma.Plan{Form: rpcrdma.FormChunked, Arg: true}},
		{"item and long arguments", 1024, 1024, 2000, 8000, 0, 0, rpcrdma.Plan{Form: rpcrdma.FormLong, Arg: true, Stream: 2040}},
		{"reduced call that fits exactly", 1024, 1024, 1024 - 68 - 24, 600, 0, 0, rpcrdma.Plan{Form: rpcrdma.FormChunked, Arg: true}},
		{"reduced call one word too long", 1024, 1024, 1024 - 68 - 20, 600, 0, 0, rpcrdma.Plan{Form: rpcrdma.FormLong, Arg: true, Stream: 40 + 1024 - 68 - 20}},
		{"reply fits exactly", 1024, 1024, 0, 0, 0, 1024 - 28, rpcrdma.Plan{}},
		{"reply one octet too long", 1024, 1024, 0, 0, 0, 1024 - 27, rpcrdma.Plan{Reply: 1024 - 27}},
		{"asymmetric thresholds", 1024, 4096, 0, 0, 0, 4096 - 28, rpcrdma.Plan{}},
		{"small sink inline", 1024, 4096, 0, 0, 2047, 128, rpcrdma.Plan{}},
		{"sink of half the threshold", 1024, 4096, 0, 0, 2048, 128, rpcrdma.Plan{Sink: true}},
		{"sink that would fit without its pad", 1024, 1024, 0, 0, 401, 1024 - 28 - 401, rpcrdma.Plan{Sink: true}},
		{"sink and long rest", 1024, 1024, 0, 0, 4096, 1024 - 28 - 24 + 4, rpcrdma.Plan{Sink: true, Reply: 1024 - 48}},
		{"sink and a rest that just fits", 1024, 1024, 0, 0, 4096, 1024 - 28 - 24, rpcrdma.Plan{Sink: true}},
		{"everything", 1024, 1024, 1500, 4096, 4096, 3000, rpcrdma.Plan{Form: rpcrdma.FormLong, Arg: true, Stream: 1540, Sink: true, Reply: 3000}},
		{"reply chunk pushes the call over", 1024, 1024, 1024 - 68, 0, 0, 2000, rpcrdma.Plan{Form: rpcrdma.FormLong, Stream: 1024 - 28, Reply: 2000}},
		{"item of nothing", 1024, 1024, 1024 - 64, 0, 0, 0, rpcrdma.Plan{Form: rpcrdma.FormLong, Stream: 1000}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := made(rpcrdma.NewRequester(rpcrdma.RequesterConfig{SendSize: c.send, RecvSize: c.recv}))
			call := &rpcrdma.Call{XID: 1, Sink: c.sink, MaxReply: c.maxReply}
			call.Message = chunks.Message{Head: rpcCall(1, 7), Body: make([]byte, c.args)}
			if c.item > 0 || c.name == "item of nothing" {
				call.Message.Items = []chunks.Item{{Pos: 40 + c.args, Data: make([]byte, c.item)}}
			}
			if err := r.Plan(call); err != nil || call.Plan != c.want {
				t.Fatalf("plan = %+v, %v\nwant   %+v", call.Plan, err, c.want)
			}
			mem := newMemory(t)
			m := &call.Memory
			m.Arg = mem.offer(nil, make([]byte, c.item), 1)
			m.Stream = mem.offer(nil, make([]byte, call.Plan.Stream), 1)
			m.Sink = mem.offer(nil, make([]byte, c.sink), 1)
			m.Reply = mem.offer(nil, make([]byte, call.Plan.Reply), 1)
			head, _, err := r.AppendCall(nil, call)
			if err != nil || len(head) > c.send {
				t.Fatalf("a Send of %d octets, %v; at most %d", len(head), err, c.send)
			}
			var out chunks.Set
			if call.Plan.Arg {
				out = out.With(0)
			}
			if long := call.Plan.Form == rpcrdma.FormLong; !long && len(head) != call.Lists().Size()+16+call.Message.ReducedLen(out) {
				t.Errorf("a Send of %d octets", len(head))
			}
		})
	}
}

func TestPlanErrors(t *testing.T) {
	r := made(rpcrdma.NewRequester(rpcrdma.RequesterConfig{}))
	c := &rpcrdma.Call{Message: chunks.Message{Body: make([]byte, 40), Items: []chunks.Item{{Pos: 42}}}}
	if err := r.Plan(c); !errors.Is(err, chunks.ErrItem) {
		t.Errorf("unaligned item: %v", err)
	}
	r = made(rpcrdma.NewRequester(rpcrdma.RequesterConfig{SendSize: 80}))
	c = &rpcrdma.Call{Sink: 4096, MaxReply: 4096, Message: chunks.Message{Body: make([]byte, 400)}}
	if err := r.Plan(c); !errors.Is(err, rpcrdma.ErrTooLong) {
		t.Errorf("header over the threshold: %v", err)
	}
}

func TestAppendCallErrors(t *testing.T) {
	full := func() (*rpcrdma.Requester, *rpcrdma.Call) {
		r := made(rpcrdma.NewRequester(rpcrdma.RequesterConfig{}))
		c := &rpcrdma.Call{XID: 1, Sink: 600, MaxReply: 2000, Message: chunks.Message{
			Body: make([]byte, 2000), Items: []chunks.Item{{Pos: 2000, Data: make([]byte, 600)}},
		}}
		noErr(t, r.Plan(c))
		m := newMemory(t)
		c.Memory.Arg = m.offer(nil, make([]byte, 600), 1)
		c.Memory.Stream = m.offer(nil, make([]byte, 2000), 1)
		c.Memory.Sink = m.offer(nil, make([]byte, 600), 1)
		c.Memory.Reply = m.offer(nil, make([]byte, 2000), 1)
		return r, c
	}
	for _, c := range []struct {
		name string
		f    func(*rpcrdma.Call)
		want error
	}{
		{"as planned", func(*rpcrdma.Call) {}, nil},
		{"no argument", func(c *rpcrdma.Call) { c.Memory.Arg = nil }, rpcrdma.ErrMemory},
		{"short stream", func(c *rpcrdma.Call) { c.Memory.Stream[0].Length-- }, rpcrdma.ErrMemory},
		{"large sink", func(c *rpcrdma.Call) { c.Memory.Sink[0].Length++ }, rpcrdma.ErrMemory},
		{"no reply memory", func(c *rpcrdma.Call) { c.Memory.Reply = nil }, rpcrdma.ErrMemory},
		{"too many segments", func(c *rpcrdma.Call) {
			c.Memory.Arg = newMemory(t).offer(nil, make([]byte, 600), 60)
		}, rpcrdma.ErrTooLong},
	} {
		r, call := full()
		c.f(call)
		b, body, err := r.AppendCall([]byte("x"), call)
		if !errors.Is(err, c.want) || err != nil && (string(b) != "x" || body != nil) {
			t.Errorf("%s: %x, %v; want %v", c.name, b, err, c.want)
		}
	}
}

// TestGather: large octets at the end of a Send are not copied.
func TestGather(t *testing.T) {
	data := ramp(300, 1)
	for _, c := range []struct {
		min, item, body int
	}{{0, 300, 0}, {200, 300, 300}, {300, 300, 300}, {301, 300, 0}, {200, 299, 0}} {
		r := made(rpcrdma.NewRequester(rpcrdma.RequesterConfig{GatherMin: c.min}))
		call := &rpcrdma.Call{Message: chunks.Message{Head: rpcCall(1, 7), Items: []chunks.Item{{Pos: 40, Data: data[:c.item]}}}}
		noErr(t, r.Plan(call))
		head, body, err := r.AppendCall(nil, call)
		if err != nil || len(body) != c.body || len(head)+len(body) != 28+40+300 {
			t.Errorf("%+v: %d and %d octets, %v", c, len(head), len(body), err)
		}
		if len(body) > 0 && &body[0] != &data[0] {
			t.Error("body was copied")
		}
	}
}
