package transport_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// procMany takes a count and so many opaques and returns them in reverse order.
const procMany = 30

// manyBinding is echoBinding, and knows all items of procMany.
type manyBinding struct{ testBinding }

func (b manyBinding) Eligible(prog, vers, proc uint32) (arg, result bool) {
	if proc == procMany {
		return true, true
	}
	return b.testBinding.Eligible(prog, vers, proc)
}

func (manyBinding) Lists(prog, _ uint32) bool { return prog == testProg }

func (manyBinding) ListArgs(_, _, proc uint32, b []byte, visit chunks.Visit) bool {
	d := xdr.NewDecoder(b)
	for range d.Uint32() {
		if n := int(d.Uint32()); d.Err() == nil {
			d.Skip(visit(d.Offset(), n))
		}
		if d.Err() != nil {
			return false
		}
	}
	return proc == procMany && d.Err() == nil
}

func (b manyBinding) ListResults(prog, vers, proc uint32, res []byte, visit chunks.Visit) bool {
	return b.ListArgs(prog, vers, proc, res, visit)
}

// many serves procMany; lazy says whether it takes the data itself.
type many struct{ lazy bool }

func (h many) Describe(_ *rpc.Request) rpc.Traits {
	return rpc.Traits{Lazy: h.lazy}
}

func (h many) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	if req.Proc == procNull { // a client asks for its grant by it
		return
	}
	d := xdr.NewDecoder(req.Args)
	var list [][]byte
	var pending []rpc.Opaque
	for range d.Count(100, 4) {
		pending = append(pending, req.Opaque(&d, 1<<20))
	}
	if d.End() != nil {
		resp.Stat = xdr.GarbageArgs
		return
	}
	for i := range pending {
		b := resp.Buffer(pending[i].Len())
		if pending[i].PullInto(ctx, b) != nil {
			return
		}
		list = append(list, b)
	}
	resp.Results = xdr.AppendUint32(resp.Results, uint32(len(list)))
	for i := range list {
		resp.AppendItem(list[len(list)-1-i])
	}
}

// manyCall is a call of procMany with room for its results.
func manyCall(sizes []int, sinks bool) *rpc.Call {
	c := &rpc.Call{Prog: testProg, Vers: testVers, Proc: procMany, MaxResults: 4 + 4*len(sizes)}
	c.Args = xdr.AppendUint32(c.Args, uint32(len(sizes)))
	for i, n := range sizes {
		data := filled(n + i)[i:]
		c.Args = xdr.AppendUint32(c.Args, uint32(n))
		sink := make([]byte, sizes[len(sizes)-1-i])
		switch {
		case !sinks:
			c.MaxResults += n + xdr.Pad(n)
		case i == 0:
			c.Sink = sink
		default:
			c.MoreSinks = append(c.MoreSinks, rpc.CallSink{Data: sink})
		}
		if i == 0 {
			c.Item, c.ItemPos = data, len(c.Args)
			continue
		}
		c.MoreItems = append(c.MoreItems, rpc.CallItem{Pos: len(c.Args), Data: data})
	}
	return c
}

// wantMany compares the results of procMany with its arguments.
func wantMany(t *testing.T, c *rpc.Call, r *rpc.Reply) {
	t.Helper()
	items := [][]byte{c.Item}
	for _, it := range c.MoreItems {
		items = append(items, it.Data)
	}
	sinks := [][]byte{c.Sink}
	for _, s := range c.MoreSinks {
		sinks = append(sinks, s.Data)
	}
	d := xdr.NewDecoder(r.Results)
	if n := int(d.Uint32()); n != len(items) {
		t.Fatalf("%d results, want %d", n, len(items))
	}
	for i := range items {
		want := items[len(items)-1-i]
		var got []byte
		if r.Placed && len(sinks[i]) > 0 {
			if n := int(d.Uint32()); n != r.Lens[i] {
				t.Fatalf("result %d: count %d, %d placed", i, n, r.Lens[i])
			}
			got = sinks[i][:r.Lens[i]]
		} else {
			got = d.Opaque(1 << 20)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("result %d: %d octets, want %d, or other ones; %v", i, len(got), len(want), d.Err())
		}
	}
	noErr(t, d.End())
}

// manyConfig is testConfig for the handler many.
func manyConfig() *transport.Config {
	cfg := testConfig()
	cfg.Binding = manyBinding{echoBinding}
	return cfg
}

// TestMany makes calls with several items and sinks, over all transports, whether the handler
// takes the data itself or not: write list and reply chunk in one call are among them, and
// read chunks behind a Position Zero chunk.
func TestMany(t *testing.T) {
	cfg := func() *transport.Config { return manyConfig() }
	for _, lazy := range []bool{false, true} {
		s, addr := startServer(t, many{lazy}, cfg())
		c := dial(t, addr, cfg())
		for _, sizes := range [][]int{
			{5},
			{9001},
			{10, 20, 31},
			{5000, 7, 70_001},
			{7, 5001, 0, 9},
			{3000, 3001, 3002, 3003, 3004, 3005, 3006, 3007},
			{1000, 1001, 1002, 1003, 1004, 1005},
			{100, 100_001},
			{1900, 1900, 1900, 5000, 1900},
		} {
			for _, sinks := range []bool{true, false} {
				t.Run(fmt.Sprint(lazy, sizes, sinks), func(t *testing.T) {
					before, mine := s.Stats(), c.Stats()
					call := manyCall(sizes, sinks)
					wantMany(t, call, mustDo(t, c, call))
					st, cl := s.Stats(), c.Stats()
					if a, b := st.OctetsRead-before.OctetsRead, cl.OctetsRead-mine.OctetsRead; a != b {
						t.Errorf("%d octets by RDMA Read, but the client counts %d", a, b)
					}
					if a, b := st.OctetsWritten-before.OctetsWritten, cl.OctetsWritten-mine.OctetsWritten; a != b {
						t.Errorf("%d octets by RDMA Write, but the client counts %d", a, b)
					}
					if cl.OctetsLent != 0 {
						t.Errorf("%d octets lent", cl.OctetsLent)
					}
				})
			}
		}
	}
}

// TestManyMemory has registered memory for each of several items and sinks.
func TestManyMemory(t *testing.T) {
	cfg := manyConfig()
	_, c := pair(t, many{}, cfg, cfg)
	call := manyCall([]int{5000, 6000, 7000}, true)
	for i := range call.MoreItems {
		m := rpc.Alloc(len(call.MoreItems[i].Data))
		copy(m.Bytes(), call.MoreItems[i].Data)
		call.MoreItems[i].Data, call.MoreItems[i].Memory = m.Bytes(), m
		m = rpc.Alloc(len(call.MoreSinks[i].Data))
		call.MoreSinks[i].Data, call.MoreSinks[i].Memory = m.Bytes(), m
	}
	for range 3 {
		wantMany(t, call, mustDo(t, c, call))
	}
	if st := c.Stats(); st.Registered != 3*2+4 || st.Reused != 2*4 || st.OctetsLent != 0 {
		t.Errorf("%+v", st)
	}
}

// TestManyRefused: calls that contradict themselves are not sent, and memory that one refused
// call had is free again.
func TestManyRefused(t *testing.T) {
	cfg := manyConfig()
	_, c := pair(t, many{}, cfg, cfg)
	m := rpc.Alloc(7000)
	for name, change := range map[string]func(*rpc.Call){
		"no Item":               func(c *rpc.Call) { c.Item = nil },
		"descending":            func(c *rpc.Call) { c.MoreItems[1].Pos = c.MoreItems[0].Pos },
		"not aligned":           func(c *rpc.Call) { c.MoreItems[0].Pos++ },
		"beyond":                func(c *rpc.Call) { c.MoreItems[1].Pos = len(c.Args) + 4 },
		"too long a credential": func(c *rpc.Call) { c.Cred = xdr.Auth{Flavor: xdr.AuthSys, Body: make([]byte, 401)} },
		"too long a verifier":   func(c *rpc.Call) { c.Verf = xdr.Auth{Flavor: xdr.RPCSECGSS, Body: make([]byte, 401)} },
		"too many sinks":        func(c *rpc.Call) { c.MoreSinks = make([]rpc.CallSink, 8) },
		"same memory": func(c *rpc.Call) {
			c.MoreItems[0].Data, c.MoreItems[0].Memory = m.Bytes()[:6000], m
			c.MoreItems[1].Data, c.MoreItems[1].Memory = m.Bytes(), m
		},
	} {
		call := manyCall([]int{5000, 6000, 7000}, true)
		change(call)
		freed := 0
		call.Free = func() { freed++ }
		if e, ok := errors.AsType[*rpc.RPCError](try(t, c, call)); !ok || e.Reason != rpc.ReasonBadCall {
			t.Errorf("%s: %v", name, e)
		}
		if freed != 1 || m.InUse() || c.Stats().OctetsLent != 0 {
			t.Errorf("%s: memory is still lent", name)
		}
	}
	if n := c.Stats().Calls; n > 1 { // the one that asks for the grant
		t.Errorf("%d calls were sent", n)
	}
}
