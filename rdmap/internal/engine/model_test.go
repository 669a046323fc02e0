package engine_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// FuzzModel: regions, queues and order under every schedule. As the octets of the input say, two engines post operations to
// each other, receive what the other sends in pieces of any size, invalidate, revoke and register memory in the meantime,
// break rules, and lose the connection. Memory, messages and completions have to be those of the model.
func FuzzModel(f *testing.F) {
	for _, in := range worldSeeds {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in []byte) { runWorld(t, in) })
}

// worldSeeds have each op code, alone and with others.
var worldSeeds = func() (all [][]byte) {
	for code := range byte(16) {
		all = append(all, []byte{code * 17, code, 1, 2, 3, 4, 15, code | 0x10, 5, 6, 7, 8, 14, 1, 9, 14, 0x11, 200})
	}
	return append(all,
		[]byte{0, 3, 0, 0, 40, 4, 0, 0, 40, 5, 0, 1, 7, 8, 0, 0, 64, 15, 15},             // write, read, add, verify
		[]byte{0x55, 3, 1, 8, 20, 9, 1, 0x13, 0, 4, 30, 13, 13, 0x1d, 7, 0x1d, 60, 2, 1}) // both ways, in small pieces
}()

// TestModel is FuzzModel with inputs that differ from run to run. Of one that fails it prints the shortest part that fails
// too, and the steps.
func TestModel(t *testing.T) {
	seed := rdmaptest.MixSeed()
	t.Log("-mix.seed", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	all := slices.Clone(worldSeeds)
	for range 300 {
		in := make([]byte, 2+rnd.IntN(150))
		for j := range in {
			in[j] = byte(rnd.Uint32())
		}
		all = append(all, in)
	}
	for _, in := range all {
		if try(t, in).why == "" {
			continue
		}
		in = shrink(in, func(in []byte) bool { return try(t, in).why != "" })
		x := try(t, in)
		t.Fatalf("%#v fails: %s\n%s", in, x.why, strings.Join(x.steps, "\n"))
	}
}

// trial is a test of its own, so that its failure is no failure of the one that it is part of.
type trial struct {
	testing.TB
	why   string // empty: it passed
	steps []string
}

// try runs a world.
func try(t testing.TB, in []byte) *trial {
	x := &trial{TB: t}
	over := make(chan struct{})
	go func() { // Fatal ends the goroutine
		defer close(over)
		defer func() {
			if p := recover(); p != nil {
				x.why = fmt.Sprint(p)
			}
		}()
		runWorld(x, in)
	}()
	<-over
	return x
}

func (x *trial) Fatal(args ...any) { x.Fatalf("%s", fmt.Sprint(args...)) }

func (x *trial) Fatalf(format string, args ...any) {
	x.why = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// steps are the names of what world.act does.
var steps = [...]string{
	"send", "send", "send and invalidate", "write", "write", "read", "read", "atomic", "commit", "revoke", "break a rule",
	"cut", "settle", "hear", "speak", "speak",
}

// runWorld runs the op codes: the low half of an octet says what to do, bit 4 which side does it. Rules are broken rarely,
// because otherwise nothing else would happen.
func runWorld(t testing.TB, in []byte) {
	if len(in) > 300 {
		return
	}
	w := newWorld(t, in)
	for len(w.in) > 0 && !w.cut {
		b := w.next()
		i := b >> 4 & 1
		if what := b & 15; what > 10 || !w.failed() { // nobody posts after the end
			if x, ok := t.(*trial); ok {
				x.steps = append(x.steps, fmt.Sprintf("side %d: %s", i, steps[what]))
			}
			w.act(what, w.sides[i], w.sides[1-i], i)
		}
	}
	w.finish()
}

func (w *world) act(what int, s, peer *worldSide, i int) {
	switch what {
	case 0, 1:
		w.send(s, peer)
	case 2:
		w.sendInvalidate(s, peer)
	case 3, 4:
		w.write(s, peer)
	case 5, 6:
		w.read(s, peer)
	case 7:
		w.atomic(s, peer)
	case 8:
		w.commit(s, peer)
	case 9:
		if w.next()&3 == 0 {
			w.revoke(s)
		}
	case 10:
		if w.next()&7 == 0 {
			w.breakRule(s, peer)
		}
	case 11:
		w.cut = w.next()&15 == 0
	case 12:
		w.settle()
	case 13:
		w.hear(i, 1+w.next())
	default:
		w.speak(s)
		w.hear(i, 1+w.next()&7)
	}
}

func (w *world) send(s, peer *worldSide) {
	kind := w.next()
	op := []verbs.Opcode{verbs.OpSend, verbs.OpSendSE, verbs.OpImmediate, verbs.OpImmediateSE}[kind&3]
	data := rdmaptest.Pattern(kind)
	if op >= verbs.OpImmediate {
		data = data[:0:0]
		data = binary.BigEndian.AppendUint64(data, uint64(len(s.ops)))
	}
	peer.want = append(peer.want, verbs.Message{Op: op, Data: data})
	w.post(s, verbs.WR{Op: op, Body: data}, &worldOp{})
}

// sendInvalidate: requests on the region are answered first, since the Send may overtake them.
func (w *world) sendInvalidate(s, peer *worldSide) {
	slot := w.next() % 3
	r := peer.slots[slot]
	if r.busy > 0 {
		return
	}
	r.gone = true
	w.fill(peer, slot)
	peer.want = append(peer.want, verbs.Message{Op: verbs.OpSendInvalidate, Data: []byte{1}, Invalidated: r.STag()})
	w.post(s, verbs.WR{Op: verbs.OpSendInvalidate, Body: []byte{1}, STag: r.STag()}, &worldOp{region: r})
}

// place returns a region of the peer and a range in it.
func (w *world) place(peer *worldSide, slots int) (r *worldRegion, off, n int) {
	r = peer.slots[w.next()%slots]
	off = w.next() % worldSize
	return r, off, w.next() % (worldSize - off + 1)
}

// write: not to a region with an outstanding request, which the Write may overtake.
func (w *world) write(s, peer *worldSide) {
	r, off, n := w.place(peer, 3)
	if r.busy > 0 {
		return
	}
	data := bytes.Repeat([]byte{byte(len(s.ops) + 1)}, n)
	r.set(off, data)
	w.post(s, verbs.WR{Op: verbs.OpWrite, STag: r.STag(), TO: uint64(off), Body: data}, &worldOp{region: r})
}

func (w *world) read(s, peer *worldSide) {
	r, off, n := w.place(peer, 2)
	sink := s.register(w.t, region.ReadSink)
	w.post(s, verbs.WR{Op: verbs.OpReadRequest, STag: r.STag(), TO: uint64(off), Len: uint32(n), Sink: sink.STag()},
		&worldOp{region: r, sink: sink, value: bytes.Clone(r.double[off : off+n])})
}

func (w *world) atomic(s, peer *worldSide) {
	r := peer.slots[w.next()%3]
	kind := w.next()
	off := kind & 0x38
	old := native.Uint64(r.double[off:])
	a := &verbs.Atomic{Op: verbs.AtomicOp(kind & 3 % 3), Operand: uint64(kind) << 52, CompareMask: ^uint64(0), Mask: 0}
	now := a.Operand
	switch a.Op {
	case verbs.AtomicFetchAdd:
		now += old
	case verbs.AtomicCmpSwap:
		a.Mask = ^uint64(0)
		a.Compare = old
		if kind&4 != 0 {
			a.Compare, now = old+1, old
		}
	case verbs.AtomicSwap:
	}
	r.set(off, native.AppendUint64(nil, now))
	w.post(s, verbs.WR{Op: verbs.OpAtomicRequest, STag: r.STag(), TO: uint64(off), Atomic: a}, &worldOp{region: r, old: old})
}

// commit posts a Flush, a Verify or an Atomic Write.
func (w *world) commit(s, peer *worldSide) {
	r, off, n := w.place(peer, 2)
	o := &worldOp{region: r}
	wr := verbs.WR{STag: r.STag(), TO: uint64(off), Len: uint32(n)}
	switch w.next() % 4 {
	case 0:
		wr.Op, wr.Flags = verbs.OpFlushRequest, verbs.FlushPersistent|verbs.FlushVisible
	case 1:
		wr.Op, o.value = verbs.OpVerifyRequest, rdmaptest.Castagnoli(r.double[off:off+n])
	case 2:
		wr.Op, o.value = verbs.OpVerifyRequest, rdmaptest.Castagnoli(r.double[off:off+n])
		wr.Body = o.value
	case 3:
		wr.Op, wr.TO, wr.Len = verbs.OpAtomicWriteRequest, uint64(off&^7), 0
		wr.Body = binary.BigEndian.AppendUint64(nil, uint64(len(s.ops))<<32)
		r.set(off&^7, wr.Body)
	}
	w.post(s, wr, o)
}

// revoke: the owner invalidates a region and registers another. Operations on it that are in flight may be refused.
func (w *world) revoke(s *worldSide) {
	slot := w.next() % 3
	r := s.slots[slot]
	if r.touched {
		w.mayFail[verbs.TermCode{Layer: 1, EType: 1, Code: 0}], w.mayFail[verbs.TermCode{Layer: 0, EType: 1, Code: 0}] = true, true
	}
	r.revoked = true
	r.Revoke()
	w.fill(s, slot)
}

// breakRule posts an operation that has to be refused.
func (w *world) breakRule(s, peer *worldSide) {
	var wr verbs.WR
	var code verbs.TermCode
	what := w.next() % 5
	r := peer.slots[what%3]
	switch what {
	case 0: // beyond the end
		wr, code = verbs.WR{Op: verbs.OpWrite, STag: r.STag(), TO: worldSize - 1, Body: []byte{7, 7}}, verbs.TermCode{Layer: 1, EType: 1, Code: 1}
	case 2: // a region that may not be read
		wr, code = verbs.WR{Op: verbs.OpReadRequest, STag: r.STag(), Len: 8, Sink: s.slots[0].STag()}, verbs.TermCode{Layer: 0, EType: 1, Code: 2}
	case 3: // an STag that never was
		wr, code = verbs.WR{Op: verbs.OpSendInvalidate, STag: 0xdead0000}, verbs.TermCode{Layer: 0, EType: 1, Code: 9}
	case 1: // a word that is not aligned
		wr, code = verbs.WR{Op: verbs.OpAtomicRequest, STag: r.STag(), TO: 4, Atomic: &verbs.Atomic{}}, verbs.TermCode{Layer: 0, EType: 2, Code: 7}
	case 4: // octets that hash to something else
		wr, code = verbs.WR{Op: verbs.OpVerifyRequest, STag: peer.slots[0].STag(), Len: 64, Body: []byte("hash")}, verbs.TermCode{Layer: 0, EType: 2, Code: 7}
		r = peer.slots[0]
	}
	w.mayFail[code], w.must = true, true
	w.post(s, wr, &worldOp{region: r})
}

// world has two engines that exchange messages in both directions over wires that deliver octets at any time, and a naive
// model of the result: in the model, a posted operation takes effect at the peer at once. The model posts nothing whose
// outcome RFC 5040 Section 5.5 leaves open, that is, nothing that comes after a request and may overtake it; FuzzOrder
// covers that.
type world struct {
	t       testing.TB
	in      []byte // op codes
	sides   [2]*worldSide
	cut     bool
	mayFail map[verbs.TermCode]bool // the codes with which a peer may be refused by now
	must    bool                    // some operation has to be refused
}

// worldSide is one engine and what the model knows about it.
type worldSide struct {
	e      *halves
	pool   *buf.Pool
	wire   []byte // sent, not yet received
	slots  [3]*worldRegion
	all    []*worldRegion
	want   []verbs.Message // to be delivered here, in this order
	ops    []*worldOp
	last   int // index of the last operation completed
	wasErr error
}

// worldRegion is a registration and its naive double.
type worldRegion struct {
	region.Region
	mem, double []byte
	history     [][]byte // every value of the double
	busy        int      // requests that are not yet answered
	touched     bool     // named by an operation since everything was at rest
	revoked     bool     // by its owner: the outcome of operations on it is open
	gone        bool     // a Send will invalidate it
}

// worldOp is a work request.
type worldOp struct {
	side   *worldSide
	index  int
	op     verbs.Opcode
	n      int // how often it has completed
	region *worldRegion
	sink   *worldRegion // of a Read
	value  []byte       // what a Read or Verify has to return
	old    uint64       // what an atomic has to return
	answer verbs.Answer
}

const (
	worldSize   = 64
	worldRights = rdmaptest.CommitRights | region.Atomic | region.RemoteInvalidate
)

func newWorld(t testing.TB, in []byte) *world {
	w := &world{t: t, in: in, mayFail: make(map[verbs.TermCode]bool)}
	how := w.next()
	sizes := [...]int{60, 131, 300, engine.StagMULPDU}
	for i := range w.sides {
		s := &worldSide{pool: buf.NewPool(1 << 20), last: -1}
		s.e = newEngine(engineConfig{
			mulpdu: sizes[(how>>(2*i))&3], ird: 3, ord: 2, recvs: 1000, size: 256, ext: engine.ExtAll,
			nocrc: how&16 != 0, interleave: how&32 != 0, pool: s.pool,
		})
		if how&64 != 0 {
			s.e.wk.StartMarking()
			s.e.df.ExpectMarkers()
		}
		w.sides[i] = s
		for j := range s.slots {
			w.fill(s, j)
		}
	}
	return w
}

// next returns the next octet of the input, 0 at its end.
func (w *world) next() int {
	if len(w.in) == 0 {
		return 0
	}
	b := w.in[0]
	w.in = w.in[1:]
	return int(b)
}

// fill registers new memory in a slot. That of slot 2 may not be read.
func (w *world) fill(s *worldSide, slot int) {
	access := worldRights
	if slot == 2 {
		access &^= region.RemoteRead | region.Verify
	}
	s.slots[slot] = s.register(w.t, access)
	s.all = append(s.all, s.slots[slot])
}

func (s *worldSide) register(t testing.TB, access region.Access) *worldRegion {
	r := &worldRegion{double: make([]byte, worldSize)}
	mem := &rdmaptest.Persisting{Mem: make([]byte, worldSize)}
	reg := must(s.e.snd.Table.RegisterMemory(mem, region.Options{Access: access}))(t)
	r.Region, r.mem = reg, mem.Mem
	r.set(0, nil)
	return r
}

// set stores to the double.
func (r *worldRegion) set(off int, p []byte) {
	copy(r.double[off:], p)
	r.history = append(r.history, bytes.Clone(r.double))
}

// Complete implements Completer.
func (o *worldOp) Complete(err error) {
	s := o.side
	if o.n++; o.n > 1 {
		panic(fmt.Sprintf("%v completed %d times", o.op, o.n))
	}
	if o.region != nil && engine.Asks(o.op) {
		o.region.busy--
	}
	if err != nil {
		return
	}
	if o.index <= s.last {
		panic(fmt.Sprintf("%v, operation %d, completed after operation %d", o.op, o.index, s.last))
	}
	s.last = o.index
	var got []byte
	switch o.op {
	case verbs.OpReadRequest:
		got = o.sink.mem[:len(o.value)]
	case verbs.OpVerifyRequest:
		got = o.answer.Sum[:o.answer.N]
	case verbs.OpAtomicRequest:
		if o.answer.Old != o.old {
			panic(fmt.Sprintf("an atomic found %#x, want %#x", o.answer.Old, o.old))
		}
	default:
	}
	if !bytes.Equal(got, o.value) {
		panic(fmt.Sprintf("%v answered %x, want %x", o.op, got, o.value))
	}
}

// post posts wr at s; o describes the expected result.
func (w *world) post(s *worldSide, wr verbs.WR, o *worldOp) {
	o.side, o.index, o.op = s, len(s.ops), wr.Op
	s.ops = append(s.ops, o)
	if o.region != nil {
		o.region.touched = true
		if engine.Asks(wr.Op) {
			o.region.busy++
		}
	}
	wr.Answer, wr.Done = &o.answer, o
	s.e.post(wr)
}

// speak puts the output of s on the wire.
func (w *world) speak(s *worldSide) { s.wire = append(s.wire, s.e.output()...) }

// hear gives n octets of that to the peer of s.
func (w *world) hear(i, n int) {
	s, peer := w.sides[i], w.sides[1-i]
	n = min(n, len(s.wire))
	peer.e.input(s.wire[:n])
	s.wire = s.wire[n:]
	w.check(peer)
}

// settle lets everything happen that can happen.
func (w *world) settle() {
	for moved := true; moved; {
		moved = false
		for i, s := range w.sides {
			w.speak(s)
			moved = moved || len(s.wire) > 0
			w.hear(i, len(s.wire))
		}
	}
	for _, s := range w.sides {
		for _, r := range s.all {
			r.touched = false
		}
	}
}

// check compares what was delivered to s with what should have been, and the reason why it failed with those for which it
// may fail.
func (w *world) check(s *worldSide) {
	if len(s.e.got) > len(s.want) {
		w.t.Fatalf("%d messages delivered of %d sent", len(s.e.got), len(s.want))
	}
	for i, m := range s.e.got {
		if x := &s.want[i]; m.Op != x.Op || !bytes.Equal(m.Data, x.Data) || m.Invalidated != x.Invalidated || m.Solicited != x.Op.Solicited() {
			w.t.Fatalf("message %d is %+v, want %+v", i, m, *x)
		}
	}
	if s.e.err == nil || s.e.err == s.wasErr {
		return
	}
	s.wasErr = s.e.err
	code := verbs.TermCode{Layer: 0xff, EType: 0xff, Code: 0xff}
	if pe, ok := errors.AsType[*verbs.ProtocolError](s.e.err); ok {
		code = pe.Code
	} else if te, ok := errors.AsType[*verbs.TerminateError](s.e.err); ok {
		code = te.Terminate.Code
	}
	if !w.mayFail[code] {
		w.t.Fatalf("failed: %v", s.e.err)
	}
}

// failed reports whether either engine has failed.
func (w *world) failed() bool { return w.sides[0].e.err != nil || w.sides[1].e.err != nil }

// finish ends the run and checks what is left.
func (w *world) finish() {
	if w.cut {
		for _, s := range w.sides {
			s.e.fail(rdmaptest.ErrTest)
			s.e.output()
		}
	} else {
		w.settle()
		if w.must && !w.failed() {
			w.t.Fatal("an operation that had to be refused was carried out")
		}
	}
	for i, s := range w.sides {
		for _, o := range s.ops {
			if o.n != 1 {
				w.t.Fatalf("side %d: %v, operation %d of %d, completed %d times", i, o.op, o.index, len(s.ops), o.n)
			}
		}
		w.memory(s)
		if s.e.rcv.Close(); s.pool.Load().Octets != 0 || s.pool.Load().Unfinished != 0 {
			w.t.Fatalf("side %d: of the pool are in use %+v", i, s.pool.Load())
		}
	}
}

// memory compares the memory of s with the model's.
func (w *world) memory(s *worldSide) {
	whole := !w.failed() && !w.cut
	if whole && len(s.e.got) != len(s.want) {
		w.t.Fatalf("%d messages delivered of %d sent", len(s.e.got), len(s.want))
	}
	for i, r := range s.all {
		if whole && !r.revoked && !bytes.Equal(r.mem, r.double) {
			w.t.Fatalf("region %d holds %x, want %x", i, r.mem, r.double)
		}
		if whole && r.Valid() == (r.gone || r.revoked) {
			w.t.Fatalf("region %d is valid: %v", i, r.Valid())
		}
		for at, b := range r.mem {
			if !slices.ContainsFunc(r.history, func(h []byte) bool { return h[at] == b }) {
				w.t.Fatalf("octet %d of region %d is %#x, which nobody wrote", at, i, b)
			}
		}
	}
}

// native is how the engine's words lie in memory.
var native = binary.NativeEndian

// shrink returns a short part of in, the input of a model that draws its steps from it, that fails as well: without any
// run of octets that can be left out. It borrows in, and calls fails about len(in) times the logarithm of that.
func shrink(in []byte, fails func(in []byte) bool) []byte {
	for size := len(in); size > 0; size /= 2 {
		for at := 0; at+size <= len(in); {
			if part := slices.Concat(in[:at], in[at+size:]); fails(part) {
				in = part
			} else {
				at += size
			}
		}
	}
	return in
}
