package transport_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

var lifetimes = flag.Int("lifetimes", 40, "seeds of TestLifetime")

// TestLifetime: calls of all forms, some cancelled, some out of time, to a server that answers early, late, twice, with
// wrong chunks or not at all, reads slowly, and invalidates what it should not; in the end, or before, the connection
// breaks. Every Do returns, memory comes back once, before Do returns unless its context has ended, nobody touches it
// afterwards (run it with -race), and nothing stays.
func TestLifetime(t *testing.T) {
	settle(t)
	for seed := range *lifetimes {
		lifetime(t, uint64(seed))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func lifetime(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 311))
	before := memory.Shared.Live()
	cfg := testConfig()
	if seed%3 == 0 {
		cfg.RFC5666 = new(transport.RFC5666)
	}
	if seed%4 == 1 {
		cfg.Timeouts.Call = 10 * time.Millisecond // the tick comes every 100 ms
	}
	cfg.Timeouts.Close = 5 * time.Second
	recv := []int{4096, 64 << 10}[rnd.IntN(2)]
	a, b := rdmaptest.PipeSize([]int{3000, 200_000}[rnd.IntN(2)])
	m := &moody{rnd: rnd}
	served := make(chan struct{})
	go func() {
		defer close(served)
		m.serve(b, rawConfig(rpcrdma.PrivateData{RemoteInvalidate: seed%2 == 0, SendSize: 4096, RecvSize: recv}.Append(nil), recv))
	}()
	c := must(transport.NewClient(testCtx(t), a, cfg))(t)
	end := time.AfterFunc(time.Duration(1+rnd.IntN(20))*time.Millisecond, []func(){
		a.Reset, func() { c.Close() }, func() { c.Conn().Abort(nil) }, func() { b.Close() },
	}[rnd.IntN(4)])
	defer end.Stop()
	var wg sync.WaitGroup
	var out atomic.Int64
	for range 6 {
		caller := rand.New(rand.NewPCG(m.next(), 1))
		wg.Go(func() {
			for c.Err() == nil {
				lifetimeCall(t, c, caller, &out, cfg.Timeouts.Call > 0)
			}
		})
	}
	wg.Wait() // every Do returns
	c.Close()
	<-c.Conn().Done()
	<-served
	waitFor(t, "all memory is back", func() bool { return out.Load() == 0 && memory.Shared.Live() <= before })
	if n := c.Conn().Table().Live(); n != 0 || c.Stats().InFlight != 0 || c.Stats().OctetsLent != 0 {
		t.Errorf("%d STags live, %+v", n, c.Stats())
	}
}

// lifetimeCall makes one call. out counts the calls whose memory is not back.
func lifetimeCall(t *testing.T, c *transport.Client, rnd *rand.Rand, out *atomic.Int64, timed bool) {
	n := []int{10, 3000, 30_000, 100_000}[rnd.IntN(4)]
	call := itemCall(procEcho, make([]byte, n))
	switch rnd.IntN(4) {
	case 0:
		call = wordCall(procList, 9)
		call.MaxResults = n
	case 1:
		call = wordCall(procFill, uint32(n))
		call.Sink, call.MaxResults = make([]byte, n), 64
	case 2:
		call.Sink, call.MaxResults = make([]byte, n), 64
	}
	item, sink := call.Item, call.Sink
	var freed atomic.Int32
	out.Add(1)
	call.Free = func() {
		if freed.Add(1) != 1 {
			t.Error("memory came back twice")
		}
		clear(item) // a race with whoever still uses it
		clear(sink)
		out.Add(-1)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if rnd.IntN(3) == 0 {
		defer time.AfterFunc(time.Duration(rnd.IntN(2000))*time.Microsecond, cancel).Stop()
	}
	var r rpc.Reply
	err := c.Do(ctx, call, &r)
	if (err == nil || ctx.Err() == nil && !timed) && freed.Load() != 1 {
		t.Errorf("Do returns %v, and memory came back %d times", err, freed.Load())
	}
	for _, b := range r.Results {
		_ = b // nobody else has it
	}
	r.Release()
}

// moody is a server by hand.
type moody struct {
	mu   sync.Mutex
	rnd  *rand.Rand
	conn *rdmap.Conn
	last uint32 // handle of an earlier call
}

func (m *moody) next() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rnd.Uint64()
}

func (m *moody) serve(nc net.Conn, cfg *rdmap.Config) {
	m.conn = rdmap.Server(nc, cfg)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer func() { m.conn.Abort(nil); <-m.conn.Done(); cancel() }()
	if m.conn.Handshake(ctx) != nil {
		return
	}
	for {
		r, err := m.conn.Recv(ctx)
		if err != nil {
			return
		}
		var h rpcrdma.Header
		n, err := h.Decode(r.Data, nil)
		if err != nil || h.Type == rpcrdma.MsgTypeDone {
			continue
		}
		d, call := xdr.NewDecoder(r.Data[n:]), xdr.CallHeader{}
		if call.Parse(&d) == nil && call.Prog == rpcrdma.ConfigProgram { // no calls without it
			_ = m.conn.Send(ctx, append(header(rpcrdma.Header{XID: h.XID}), xdr.AppendReply(nil, &xdr.ReplyHeader{XID: h.XID, Accept: xdr.ProgUnavail})...))
			continue
		}
		mood := rand.New(rand.NewPCG(m.next(), 2))
		if mood.IntN(8) == 0 {
			time.Sleep(time.Duration(mood.IntN(1000)) * time.Microsecond) // reads nothing meanwhile
		}
		wg.Go(func() { m.answer(ctx, &h, mood) })
	}
}

// answer answers one call.
func (m *moody) answer(ctx context.Context, h *rpcrdma.Header, mood *rand.Rand) {
	reply := rpcrdma.Header{XID: h.XID, Credit: uint32(mood.IntN(12)), Lists: chunks.Lists{Write: h.Lists.Write, HasReply: h.Lists.HasReply, Reply: h.Lists.Reply}}
	for i := range h.Lists.Read {
		if s := &h.Lists.Read[i]; mood.IntN(4) > 0 {
			_ = m.conn.Read(ctx, make([]byte, s.Length), region.STag(s.Handle), s.Offset)
		}
	}
	var stag uint32
	if len(h.Lists.Read) > 0 {
		stag = uint32(h.Lists.Read[0].Handle)
	}
	placed := uint32(0)
	for _, w := range reply.Lists.Write {
		for i := range w {
			stag = uint32(w[i].Handle)
			w[i].Length = uint32(mood.IntN(int(w[i].Length) + 1))
			placed += w[i].Length
			_ = m.conn.Write(ctx, make([]byte, w[i].Length), region.STag(w[i].Handle), w[i].Offset)
		}
	}
	results := words(placed)
	for i := range reply.Lists.Reply {
		reply.Lists.Reply[i].Length = 0
	}
	switch mood.IntN(40) {
	case 0, 1:
		return // no reply at all
	case 2, 3:
		reply.Type, reply.Err, reply.Lists = rpcrdma.MsgTypeError, rpcrdma.ErrChunk, chunks.Lists{}
	case 4:
		for _, w := range reply.Lists.Write {
			w[0].Handle++
		}
	case 5:
		for _, w := range reply.Lists.Write {
			w[0].Length += 1 << 20
		}
	case 6, 7, 8:
		reply.XID += uint32(mood.IntN(3)) // perhaps a call that is being sent
	case 9, 10, 11:
		time.Sleep(time.Duration(mood.IntN(3000)) * time.Microsecond)
	case 12, 13, 14, 15:
		mem := append(rpcReply(reply.XID), results...)
		if r, err := m.conn.Register(mem, region.RemoteRead); err == nil {
			reply.Type = rpcrdma.MsgTypeNoMsg
			reply.Lists.Read = []chunks.ReadSegment{{Segment: chunks.Segment{Handle: chunks.Handle(r.STag()), Length: uint32(len(mem))}}}
		}
	case 16:
		reply.Lists.Read = []chunks.ReadSegment{{Segment: chunks.Segment{Handle: 7, Length: 100}}}
	}
	send := header(reply)
	if reply.Type == rpcrdma.MsgTypeMsg {
		send = append(append(send, xdr.AppendReply(nil, &xdr.ReplyHeader{XID: reply.XID})...), results...)
	}
	m.mu.Lock()
	other := m.last
	m.last = stag
	m.mu.Unlock()
	switch invalidate := mood.IntN(60); {
	case invalidate == 0 && other != 0:
		_ = m.conn.SendInvalidate(ctx, send, region.STag(other))
	case invalidate < 20 && stag != 0:
		_ = m.conn.SendInvalidate(ctx, send, region.STag(stag))
	default:
		_ = m.conn.Send(ctx, send)
	}
	switch mood.IntN(30) {
	case 0, 1:
		_ = m.conn.Send(ctx, send)
	case 2:
		for _, w := range h.Lists.Write {
			_ = m.conn.Write(ctx, []byte("late"), region.STag(w[0].Handle), w[0].Offset)
		}
	}
}

// TestNoConfiguration: a server that is silent from its first call on does not keep who connects.
func TestNoConfiguration(t *testing.T) {
	a, b := pipe(t)
	p := &rawPeer{t, rdmap.Server(b, rawConfig(nil, 4096))}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := p.conn.Handshake(testCtx(t)); err != nil {
			t.Error(err)
			return
		}
		p.loop(func(*rawPeer, *rpcrdma.Header, []byte) {})
	}()
	cfg := testConfig()
	cfg.RFC5666 = new(transport.RFC5666)
	cfg.Startup.Timeout = 100 * time.Millisecond
	if _, err := transport.NewClient(context.Background(), a, cfg); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	<-served
}
