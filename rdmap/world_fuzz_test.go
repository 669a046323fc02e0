package rdmap

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

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

// TestModel is FuzzModel with inputs that differ from run to run.
func TestModel(t *testing.T) {
	for _, in := range worldSeeds {
		runWorld(t, in)
	}
	seed := rand.Uint64()
	t.Log("seed", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for i := range 300 {
		in := make([]byte, 2+rnd.IntN(150))
		for j := range in {
			in[j] = byte(rnd.Uint32())
		}
		if !t.Run(fmt.Sprint(i), func(t *testing.T) { runWorld(t, in) }) {
			t.Fatalf("input %#v", in)
		}
	}
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
	data := pattern(kind)
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
		wr.Op, o.value = verbs.OpVerifyRequest, crc(r.double[off:off+n])
	case 2:
		wr.Op, o.value = verbs.OpVerifyRequest, crc(r.double[off:off+n])
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
