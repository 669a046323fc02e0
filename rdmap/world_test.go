package rdmap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

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
	pool   *Pool
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
	worldRights = commitRights | region.Atomic | region.RemoteInvalidate
)

func newWorld(t testing.TB, in []byte) *world {
	w := &world{t: t, in: in, mayFail: make(map[verbs.TermCode]bool)}
	how := w.next()
	sizes := [...]int{60, 131, 300, StagMULPDU}
	for i := range w.sides {
		s := &worldSide{pool: NewPool(1 << 20), last: -1}
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
	mem := &persisting{mem: make([]byte, worldSize)}
	reg, err := s.e.snd.Table.RegisterMemory(mem, region.Options{Access: access})
	if err != nil {
		t.Fatal(err)
	}
	r.Region, r.mem = reg, mem.mem
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
			s.e.fail(errTest)
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
		if s.e.rcv.Close(); s.pool.Used() != 0 {
			w.t.Fatalf("side %d: %d octets of the pool are in use", i, s.pool.Used())
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
