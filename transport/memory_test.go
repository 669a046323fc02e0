package transport_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// memoryCall is a call of procEcho whose data lie at off of in, with out for the result.
func memoryCall(in, out *rpc.Memory, off, n int) *rpc.Call {
	call := echoCall(in.Bytes()[off : off+n])
	call.ItemMemory, call.SinkMemory = in, out
	call.Sink, call.MaxResults = out.Bytes()[:n], 64
	return call
}

// TestMemory makes many calls with the same memory: it is registered once for each
// connection, and between calls the server cannot reach it.
func TestMemory(t *testing.T) {
	s, addr := startServer(t, newEcho(), nil)
	in, out := rpc.Alloc(1<<20), rpc.Alloc(1<<20)
	fill(in.Bytes())
	for range 2 {
		c := dial(t, addr, nil)
		const times = 20
		for i := range times {
			n := 3000 + 1001*i
			call := memoryCall(in, out, 8*i, n)
			r := mustDo(t, c, call)
			if !r.Placed {
				t.Fatal("not placed")
			}
			checkEcho(t, r, call.Item, call.Sink)
			if in.InUse() || out.InUse() {
				t.Fatal("in use after the reply")
			}
		}
		if st := c.Stats(); st.Registered != 2 || st.Reused != 2*times-2 || st.OctetsLent != 0 {
			t.Errorf("%+v", st)
		}
		if n := c.Conn().Table().Live(); n != 2 {
			t.Errorf("%d registrations", n)
		}
	}
	for _, m := range []*rpc.Memory{in, out} {
		if err := m.Free(); err != nil {
			t.Error(err)
		}
	}
	if st := s.Stats(); st.Registered != 40 || st.Reused != 0 || st.OctetsLent != 0 {
		t.Errorf("server: %+v", st)
	}
}

// TestMemoryManyConnections: a Memory stays registered with so many connections at most, and
// not with those that have ended.
func TestMemoryManyConnections(t *testing.T) {
	_, addr := startServer(t, newEcho(), nil)
	in, out := rpc.Alloc(5000), rpc.Alloc(5000)
	var first *transport.Client
	var all []*transport.Client
	for i := range memory.MaxWindows + 3 {
		c := dial(t, addr, nil)
		if i == 0 {
			first = c
		}
		mustDo(t, c, memoryCall(in, out, 0, 5000))
		all = append(all, c)
		n := 0
		for _, c := range all {
			n += c.Conn().Table().Live()
		}
		if n > 2*memory.MaxWindows {
			t.Fatalf("%d registrations", n)
		}
		if i == 1 {
			c.Conn().Abort(nil)
			<-c.Conn().Done()
		}
	}
	if n := first.Conn().Table().Live(); n != 0 {
		t.Errorf("%d registrations with the first connection", n)
	}
	mustDo(t, first, memoryCall(in, out, 0, 5000))
}

// TestMemoryInUse: memory of a cancelled call is refused to others until the server cannot
// touch it anymore, and so is memory used twice in one call.
func TestMemoryInUse(t *testing.T) {
	h := newTaker()
	_, c := pair(t, h, nil, nil)
	in, out := rpc.Alloc(9000), rpc.Alloc(9000)
	call := takeCall(in.Bytes(), takeWait)
	call.ItemMemory = in
	freed := make(chan struct{})
	call.Free = func() { close(freed) }
	ctx, cancel := context.WithCancel(testCtx(t))
	ended := make(chan error, 1)
	go func() { ended <- tryCtx(ctx, c, call) }()
	<-h.enter
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	refused := func(call *rpc.Call, want error) {
		t.Helper()
		e, ok := errors.AsType[*rpc.RPCError](try(t, c, call))
		if !ok || e.Reason != rpc.ReasonBadCall || !errors.Is(e, want) {
			t.Errorf("%v, want %v", e, want)
		}
	}
	refused(memoryCall(in, out, 0, 9000), rpc.ErrMemoryInUse)
	refused(memoryCall(out, in, 0, 9000), rpc.ErrMemoryInUse)
	refused(memoryCall(in, out, 0, 10), rpc.ErrMemoryInUse) // though it would go inline
	if err := in.Free(); !errors.Is(err, rpc.ErrMemoryInUse) {
		t.Error(err)
	}
	if st := c.Stats(); st.OctetsLent != 9000 {
		t.Errorf("%d octets lent", st.OctetsLent)
	}
	close(h.leave)
	<-h.pulled
	for n := 0; in.InUse(); n++ { // the reply is read by whoever waits
		mustDo(t, c, &nullCall)
	}
	<-freed
	mustDo(t, c, memoryCall(in, out, 0, 9000))

	refused(memoryCall(in, in, 0, 9000), rpc.ErrMemoryInUse)
	if in.InUse() {
		t.Error("a call that was refused keeps its memory")
	}
	foreign := memoryCall(in, out, 0, 9000)
	foreign.Item = make([]byte, 9000)
	refused(foreign, rpc.ErrNotInMemory)
	foreign.Item = in.Bytes()[: 9000-8 : 9000-8]
	foreign.Args = xdr.AppendUint32(nil, 9000-8)
	refused(foreign, rpc.ErrNotInMemory)
	if st := c.Stats(); st.OctetsLent != 0 || out.InUse() {
		t.Errorf("%d octets lent", st.OctetsLent)
	}
}
