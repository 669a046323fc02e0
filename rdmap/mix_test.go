package rdmap_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestMix: two connections do everything to each other at the same time: long Reads and Writes, Sends of several segments,
// atomics, Flushes; with upcalls that lose the reading role. Every octet arrives, at its place, once. In one run of four the
// connection ends in the middle; then everybody is told, and nothing stays.
func TestMix(t *testing.T) {
	t.Parallel()
	rdmaptest.Mix(t, mix)
}

// Sizes of the memory at each end, octets.
const (
	mixSource  = 4 << 20 // the same at both, never changed
	mixTarget  = 1 << 20 // of one worker
	mixWorkers = 3
	mixTokens  = 100 // receives
)

var mixOctets = rdmaptest.Octets(mixSource)

// mixEnd is one end, and what the other one may touch of it.
type mixEnd struct {
	t      *testing.T
	conn   *rdmap.Conn
	peer   *mixEnd
	most   int // octets of a Send to the peer
	tokens chan struct{}
	slow   bool // upcalls take time, and lose the role
	turn   atomic.Uint64
	ended  *atomic.Bool // by the test

	source, target, counter region.STag
	count                   *uint64
	added                   atomic.Uint64 // to the counter of the peer
}

// octets returns n octets of mixOctets.
func octets(rnd *rand.Rand, n int) []byte { return mixOctets[rnd.IntN(mixSource-n+1):][:n] }

// HandleRecv checks a message: where it lies in mixOctets, and that piece of it.
func (e *mixEnd) HandleRecv(c *rdmap.Conn, m *verbs.Message) {
	rnd := rand.New(rand.NewPCG(e.turn.Add(1), 1))
	if e.slow {
		switch rnd.IntN(12) {
		case 0:
			c.HandOff()
			time.Sleep(time.Duration(rnd.IntN(3000)) * time.Microsecond)
		case 1:
			c.HandOff()
		case 2: // much arrives in the meantime
			time.Sleep(time.Duration(rnd.IntN(1<<rnd.IntN(15))) * time.Microsecond)
		}
	}
	at := int(binary.BigEndian.Uint32(m.Data))
	if got := m.Data[4:]; !bytes.Equal(got, mixOctets[at:][:len(got)]) {
		e.t.Errorf("a Send of %d octets differs", len(got))
	}
	c.PostRecv(1)
	e.peer.tokens <- struct{}{}
}

func (e *mixEnd) HandleClose(*rdmap.Conn, error) {}

// sluggish is memory that takes its time to persist.
type sluggish []byte

func (m sluggish) Bytes() []byte { return m }

func (sluggish) Close() error { return nil }

func (sluggish) Persist(off, _ int) error {
	time.Sleep(time.Duration(off%4) * time.Millisecond)
	return nil
}

// register offers memory to the peer.
func (e *mixEnd) register() {
	offer := func(mem region.Memory, a region.Access) region.STag {
		r, err := e.conn.Table().RegisterMemory(mem, region.Options{Access: a})
		if err != nil {
			e.t.Fatal(err)
		}
		return r.STag()
	}
	var mem []byte
	mem, e.count = rdmaptest.Word(0)
	e.counter = offer(region.Bytes(mem[:8]), region.Atomic)
	e.source = offer(region.Bytes(mixOctets), region.RemoteRead|region.Verify)
	e.target = offer(sluggish(make([]byte, mixWorkers*mixTarget)), rdmaptest.CommitRights)
}

// do posts wrs and waits for the last of them.
func (e *mixEnd) do(ctx context.Context, wrs ...verbs.WR) error {
	var w rdmap.Waiter
	w.Reset()
	wrs[len(wrs)-1].Done = &w
	if err := e.conn.Post(wrs); err != nil {
		return err
	}
	return e.conn.Wait(ctx, &w)
}

// read reads want at TO to of a region of the peer, with several Reads at once, into the middle of other memory.
func (e *mixEnd) read(ctx context.Context, rnd *rand.Rand, from region.STag, to int, want []byte) error {
	const around = 64
	mem := make([]byte, len(want)+2*around)
	sink, err := e.conn.Register(mem, region.ReadSink)
	if err != nil {
		return err
	}
	var wrs []verbs.WR
	for off := 0; off < len(want) || off == 0; {
		n := len(want) - off
		if rnd.IntN(3) == 0 {
			n = rnd.IntN(n + 1)
		}
		wrs = append(wrs, verbs.WR{
			Op: verbs.OpReadRequest, STag: from, TO: uint64(to + off), Sink: sink.STag(), SinkTO: uint64(around + off), Len: uint32(n),
		})
		off += max(n, 1)
		if n == 0 {
			off--
		}
		if len(want) == 0 {
			break
		}
	}
	if err := e.do(ctx, wrs...); err != nil {
		return err
	}
	if err := sink.Invalidate(ctx); err != nil {
		return err
	}
	if got := mem[around:][:len(want)]; !bytes.Equal(got, want) {
		e.t.Errorf("a Read of %d octets in %d pieces differs", len(want), len(wrs))
	}
	if none := make([]byte, around); !bytes.Equal(mem[:around], none) || !bytes.Equal(mem[len(mem)-around:], none) {
		e.t.Errorf("a Read of %d octets changed what lies around them", len(want))
	}
	return nil
}

// work is worker i: it does one thing after the other.
func (e *mixEnd) work(ctx context.Context, rnd *rand.Rand, i int, until time.Time) error {
	base := i * mixTarget
	for time.Now().Before(until) {
		n := rnd.IntN(1 << (4 + rnd.IntN(17)))
		var err error
		switch rnd.IntN(10) {
		case 0, 1, 2:
			n += rnd.IntN(3 << 20)
			to := rnd.IntN(mixSource - n)
			err = e.read(ctx, rnd, e.peer.source, to, mixOctets[to:][:n])
		case 3:
			data, to := octets(rnd, n%mixTarget), rnd.IntN(mixTarget-n%mixTarget)
			if err = e.do(ctx, verbs.WR{Op: verbs.OpWrite, Body: data, STag: e.peer.target, TO: uint64(base + to)}); err == nil {
				err = e.read(ctx, rnd, e.peer.target, base+to, data)
			}
		case 4:
			err = e.do(ctx, verbs.WR{Op: verbs.OpAtomicRequest, STag: e.peer.counter, Atomic: &verbs.Atomic{Op: verbs.AtomicFetchAdd, Operand: uint64(n)}})
			e.added.Add(uint64(n))
		case 5:
			err = e.verify(ctx, rnd)
		case 6:
			err = e.invalidate(ctx, rnd)
		case 7:
			err = e.do(ctx, verbs.WR{Op: verbs.OpFlushRequest, STag: e.peer.target, TO: uint64(base + n%4), Len: uint32(n), Flags: verbs.FlushPersistent})
		default:
			err = e.send(ctx, rnd)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// verify has the peer hash some of its source.
func (e *mixEnd) verify(ctx context.Context, rnd *rand.Rand) error {
	n := rnd.IntN(100_000)
	at := rnd.IntN(mixSource - n)
	var a verbs.Answer
	err := e.do(ctx, verbs.WR{Op: verbs.OpVerifyRequest, STag: e.peer.source, TO: uint64(at), Len: uint32(n), Answer: &a})
	if want := mpa.UpdateCRC(0, mixOctets[at:][:n]); err == nil && (a.N != 4 || binary.BigEndian.Uint32(a.Sum[:]) != want) {
		e.t.Errorf("the hash of %d octets is %x, want %x", n, a.Sum[:a.N], want)
	}
	return err
}

// invalidate has the peer invalidate memory that it has just written to.
func (e *mixEnd) invalidate(ctx context.Context, rnd *rand.Rand) error {
	want := octets(rnd, 1+rnd.IntN(50_000))
	mem := make([]byte, len(want))
	reg, err := e.conn.Register(mem, region.RemoteWrite|region.RemoteInvalidate)
	if err != nil {
		return err
	}
	select {
	case <-e.peer.tokens:
	case <-ctx.Done():
		return ctx.Err()
	}
	err = e.peer.conn.Post([]verbs.WR{
		{Op: verbs.OpWrite, Body: want, STag: reg.STag()},
		{Op: verbs.OpSendInvalidate, Head: make([]byte, 4), STag: reg.STag()},
	})
	for before := time.Now(); err == nil && reg.Valid(); time.Sleep(100 * time.Microsecond) {
		if ctx.Err() != nil || time.Since(before) > 20*time.Second {
			return fmt.Errorf("not invalidated: %w", ctx.Err())
		}
	}
	if err := errors.Join(err, reg.Invalidate(ctx)); err != nil {
		return err
	}
	if !e.ended.Load() && !bytes.Equal(mem, want) {
		e.t.Errorf("a Write of %d octets differs", len(want))
	}
	return nil
}

// send sends some messages without waiting for their receipt.
func (e *mixEnd) send(ctx context.Context, rnd *rand.Rand) error {
	var wrs []verbs.WR
	for range 1 + rnd.IntN(8) {
		select {
		case <-e.tokens:
		case <-ctx.Done():
			return ctx.Err()
		}
		n := rnd.IntN(1 << rnd.IntN(9))
		if rnd.IntN(8) == 0 {
			n = rnd.IntN(e.most - 4)
		}
		at := rnd.IntN(mixSource - n)
		wrs = append(wrs, verbs.WR{Op: verbs.OpSend, Head: binary.BigEndian.AppendUint32(nil, uint32(at)), Body: mixOctets[at:][:n]})
	}
	if rnd.IntN(2) == 0 {
		return e.do(ctx, wrs...)
	}
	return e.conn.Post(wrs)
}

// mixConfigs returns the configurations of a run.
func mixConfigs(rnd *rand.Rand, pool *rdmap.Pool) (cx, cy *rdmap.Config) {
	pick := func(n ...int) int { return n[rnd.IntN(len(n))] }
	cs := [2]*rdmap.Config{{}, {}}
	size, crc, rtr := pick(4096, 4096, 100_000), rdmap.CRCMode(pick(int(rdmap.CRCOn), int(rdmap.CRCOn), int(rdmap.CRCOff))), rnd.IntN(4) == 0
	for _, c := range cs {
		*c = rdmap.Config{
			Startup: rdmap.Startup{
				CRC: crc, Extensions: verbs.Ext7306 | verbs.ExtCommit, IRD: pick(0, 2, 16), ORD: pick(0, 3, 16),
				MULPDU: pick(0, 0, 1400, 9000, 30000), Plain: pick(0, 0, 1) == 1, Markers: pick(0, 0, 0, 1) == 1, PeerToPeer: rtr,
			},
			Receives: rdmap.Receives{Size: size, Count: mixTokens, Pool: pool},
			Reading: rdmap.Reading{
				HandlerLimit: time.Duration(pick(0, 1)) * time.Millisecond, MaxHandlers: pick(0, 2),
			},
		}
	}
	return cs[0], cs[1]
}

func mix(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	pool := rdmap.NewPool([]int{100_000, 250_000, 4 << 20}[rnd.IntN(3)])
	cx, cy := mixConfigs(rnd, pool)
	ended := new(atomic.Bool)
	x := &mixEnd{t: t, ended: ended, most: cy.Receives.Size, slow: rnd.IntN(4) > 0, tokens: make(chan struct{}, mixTokens)}
	y := &mixEnd{t: t, ended: ended, most: cx.Receives.Size, slow: rnd.IntN(4) > 0, tokens: make(chan struct{}, mixTokens), peer: x}
	x.peer = y
	t.Logf("x %+v, slow %v; y %+v, slow %v", *cx, x.slow, *cy, y.slow)
	cx.Handler, cy.Handler = x, y
	a, b := Wires[[]string{"tcp", "tcp", "tcp", "pipe", "tls", "unix"}[rnd.IntN(6)]](t)
	if rnd.IntN(4) == 0 {
		a = rdmaptest.Wrap(a, rdmaptest.Faults{
			In: rdmaptest.Fault{MaxPiece: 1 + rnd.IntN(200_000)}, Out: rdmaptest.Fault{MaxPiece: 1 + rnd.IntN(200_000)}, Seed: seed,
		})
	}
	x.conn, y.conn = rdmaptest.Connect(t, a, b, cx, cy)
	if state := x.conn.ConnectionState(); state.Extensions != verbs.Ext7306|verbs.ExtCommit {
		t.Fatalf("extensions %v", state.Extensions)
	}
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), rdmaptest.MixTime()+30*time.Second)
	defer cancel()
	x.register()
	y.register()
	if err := x.do(ctx, verbs.WR{Op: verbs.OpWrite, STag: y.target}); err != nil { // the responder may send only after that
		t.Fatal(err)
	}
	until := time.Now().Add(rdmaptest.MixTime())
	for k, e := range []*mixEnd{x, y} {
		for range mixTokens {
			e.tokens <- struct{}{}
		}
		if rnd.IntN(3) > 0 {
			go e.conn.Serve()
		}
		for i := range mixWorkers {
			rnd := rand.New(rand.NewPCG(seed, uint64(1+k*mixWorkers+i)))
			wg.Go(func() {
				if err := e.work(ctx, rnd, i, until); err != nil && !ended.Load() {
					t.Errorf("end %d: %v", k, err)
					cancel()
				}
			})
		}
	}
	if rnd.IntN(4) == 0 {
		time.Sleep(time.Duration(rnd.Int64N(int64(rdmaptest.MixTime()))))
		ended.Store(true)
		[]func(){
			func() { x.conn.Close() },
			func() { x.conn.Abort(rdmaptest.ErrTest) },
			func() { y.conn.Terminate(verbs.TermCode{}, nil) },
			func() { b.Close() },
		}[rnd.IntN(4)]()
		cancel()
	}
	wg.Wait()
	if !ended.Load() {
		x.check(ctx)
		y.check(ctx)
	}
	go x.conn.Close()
	y.conn.Close()
	<-x.conn.Done()
	for end := time.Now().Add(10 * time.Second); pool.Used() > 0; time.Sleep(time.Millisecond) { // upcalls that lost the role
		if time.Now().After(end) {
			t.Fatalf("%d octets of the pool are still used", pool.Used())
		}
	}
	if n, k := x.conn.Table().Live(), y.conn.Table().Live(); n+k != 0 {
		t.Errorf("%d and %d regions are left", n, k)
	}
}

// check waits for the last messages to this end's peer, and compares its counter with what was added.
func (e *mixEnd) check(ctx context.Context) {
	for i := range mixTokens {
		select {
		case <-e.tokens:
		case <-ctx.Done():
			e.t.Fatalf("%d messages were not delivered", mixTokens-i)
		}
	}
	if err := e.conn.Err(); err != nil {
		e.t.Error(err)
	}
	if *e.count != e.peer.added.Load() {
		e.t.Errorf("the counter is %d, want %d", *e.count, e.peer.added.Load())
	}
}
