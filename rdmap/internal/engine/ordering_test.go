package engine_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// Two operations, the first and the later, are posted together. Both act on the same word, so what each has
// seen tells when it was carried out.
const (
	first = 1
	later = 2
)

// orderSize is so long that a hash needs an executor and a Read Response is not copied.
const orderSize = 2 * max(engine.InlineVerify, engine.StageLimit)

// orderPool is enough memory for the messages of both.
const orderPool = 1 << 10

// orderRig is a requester a, a responder b and persistent memory at b.
type orderRig struct {
	t        testing.TB
	a, b     *halves
	pool     *buf.Pool
	hog      buf.Mem // all memory for messages, which then wait
	mem      *notedMemory
	region   region.Region
	source   region.STag // the source of Reads, if not region
	sinks    [3][]byte
	sinkTags [3]region.STag
	answers  [3]verbs.Answer

	ops   [3]*orderOp
	names [3]string
	trace []int // which of the two took effect, in order
	got   int   // messages seen
	wrote [3]bool
	wire  []verbs.Opcode // what b has sent
	done  []string
}

// orderOp is what an operation of the requester does to the word at the responder.
type orderOp struct {
	wr       func(g *orderRig, pos int) verbs.WR
	response verbs.Opcode                      // what answers it; 0: nothing
	after    func(word uint64, pos int) uint64 // the word after it
	seen     func(g *orderRig, pos int) any    // what it saw: a word or a hash
}

func wordOf(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }

func octetsOf(word uint64) []byte { return binary.NativeEndian.AppendUint64(nil, word) }

func keep(word uint64, _ int) uint64 { return word }

func store(_ uint64, pos int) uint64 { return 0x5700 + uint64(pos) }

var orderOps = map[string]*orderOp{
	"Send": {
		wr:    func(_ *orderRig, pos int) verbs.WR { return verbs.WR{Op: verbs.OpSend, Head: []byte{byte(pos)}} },
		after: keep,
	},
	"Imm": {
		wr: func(_ *orderRig, pos int) verbs.WR {
			return verbs.WR{Op: verbs.OpImmediate, Head: []byte{byte(pos), 7: 0}}
		},
		after: keep,
	},
	"Write": {
		wr:    func(_ *orderRig, pos int) verbs.WR { return verbs.WR{Op: verbs.OpWrite, Head: octetsOf(store(0, pos))} },
		after: store,
	},
	"Read": {
		wr: func(g *orderRig, pos int) verbs.WR {
			return verbs.WR{Op: verbs.OpReadRequest, Sink: g.sinkTags[pos], Len: orderSize}
		},
		response: verbs.OpReadResponse, after: keep,
		seen: func(g *orderRig, pos int) any { return wordOf(g.sinks[pos]) },
	},
	"At": {
		wr: func(g *orderRig, pos int) verbs.WR {
			return verbs.WR{Op: verbs.OpAtomicRequest, Atomic: &verbs.Atomic{Operand: 1000 * uint64(pos)}}
		},
		response: verbs.OpAtomicResponse, after: func(word uint64, pos int) uint64 { return word + 1000*uint64(pos) },
		seen: func(g *orderRig, pos int) any { return g.answers[pos].Old },
	},
	"F": {
		wr: func(_ *orderRig, pos int) verbs.WR {
			return verbs.WR{Op: verbs.OpFlushRequest, Len: uint32(8 * pos), Flags: verbs.FlushPersistent}
		},
		response: verbs.OpFlushResponse, after: keep,
		seen: func(g *orderRig, pos int) any { return g.mem.persisted[8*pos] },
	},
	"V": {
		wr: func(_ *orderRig, pos int) verbs.WR {
			return verbs.WR{Op: verbs.OpVerifyRequest, Len: uint32(orderSize - pos)}
		},
		response: verbs.OpVerifyResponse, after: keep,
		seen: func(g *orderRig, pos int) any { return string(g.answers[pos].Sum[:g.answers[pos].N]) },
	},
	"AW": {
		wr: func(_ *orderRig, pos int) verbs.WR {
			return verbs.WR{Op: verbs.OpAtomicWriteRequest, Head: octetsOf(store(0, pos))}
		},
		response: verbs.OpAtomicWriteResponse, after: store,
	},
}

// holds reports whether the operation o can be held back at the responder although it has arrived: a Send
// without memory, or a request before its turn. A Write cannot.
func (o *orderOp) holds() bool { return o != orderOps["Write"] }

// notedMemory is a crash model that records, by the length of the flush, what was made durable: the word as
// the medium has it.
type notedMemory struct {
	*pmemtest.Sim
	persisted map[int]uint64
	flushes   []int // the lengths, in order
	err       error
	gate      chan struct{} // if not nil, flushes and hashes wait for it
}

func (m *notedMemory) Guard(off, n int, f func() error) error {
	if m.gate != nil && n > 8 {
		<-m.gate
	}
	return m.Sim.Guard(off, n, f)
}

// ReadBack reads what was stored: this medium has it at once. The draft leaves open what a Verify sees of octets that
// were not flushed.
func (m *notedMemory) ReadBack(w io.Writer, off, n int) error {
	return m.Guard(off, n, func() error { _, err := w.Write(m.Bytes()[off : off+n]); return err })
}

func (m *notedMemory) Persist(off, n int) error {
	if m.gate != nil {
		<-m.gate
	}
	if m.err != nil {
		return m.err
	}
	m.Mark()
	err := m.Sim.Persist(off, n)
	m.persisted[n] = wordOf(m.Told().Durable())
	m.flushes = append(m.flushes, n)
	return err
}

func newOrderRig(t testing.TB, firstOp, laterOp string) *orderRig {
	g := orderRigOf(t, firstOp, laterOp)
	g.pool = buf.NewPool(orderPool)
	cfg := engineConfig{
		ord: 9, ird: 9, recvs: 9, size: 64, ext: engine.ExtAll, mulpdu: engine.StagMULPDU, pool: g.pool,
	}
	g.a, g.b = newEngine(cfg), newEngine(cfg)
	g.b.rcv.SetKeep(true) // so that every message needs memory
	g.register(g.a.snd.Table, g.b.snd.Table)
	return g
}

// newPlainRig is newOrderRig with memory that is accessed without a guard and lent to the socket when it is
// read, as memory is whose STag permits no stores.
func newPlainRig(t testing.TB, firstOp, laterOp string) *orderRig {
	g := newOrderRig(t, firstOp, laterOp)
	plain := struct{ region.Memory }{g.mem}
	g.registerAs(plain, g.b.snd.Table)
	source := must(g.b.snd.Table.RegisterMemory(plain, region.Options{Access: region.RemoteRead}))(t)
	g.source = source.STag()
	return g
}

// orderRigOf is an orderRig without engines.
func orderRigOf(t testing.TB, firstOp, laterOp string) *orderRig {
	return &orderRig{
		t: t, names: [3]string{first: firstOp, later: laterOp},
		ops: [3]*orderOp{first: orderOps[firstOp], later: orderOps[laterOp]},
		mem: &notedMemory{Sim: pmemtest.OpenSim(rdmaptest.Pattern(orderSize), nil), persisted: map[int]uint64{}},
	}
}

// register registers the sinks with the requester, the memory with the responder.
func (g *orderRig) register(a, b *region.Table) {
	g.t.Cleanup(func() {
		if err := b.Close(g.t.Context()); err != nil {
			g.t.Error(err)
		}
	})
	g.registerAs(g.mem, b)
	for pos := first; pos <= later; pos++ {
		g.sinks[pos] = make([]byte, orderSize)
		sink, err := a.Register(g.sinks[pos], region.ReadSink)
		if err != nil {
			g.t.Fatal(err)
		}
		g.sinkTags[pos] = sink.STag()
	}
}

func (g *orderRig) registerAs(m region.Memory, b *region.Table) {
	var err error
	if g.region, err = b.RegisterMemory(m, region.Options{Access: rdmaptest.CommitRights | region.Atomic}); err != nil {
		g.t.Fatal(err)
	}
}

// wrs returns both operations; stag is the target of the first one, if not region.
func (g *orderRig) wrs(stag region.STag) []verbs.WR {
	var wrs []verbs.WR
	for pos := first; pos <= later; pos++ {
		wr := g.ops[pos].wr(g, pos)
		wr.STag, wr.Answer, wr.Done = g.region.STag(), &g.answers[pos], recorder{&g.done, fmt.Sprint(pos)}
		if wr.Op == verbs.OpReadRequest && g.source != 0 {
			wr.STag = g.source
		}
		if pos == first && stag != g.region.STag() {
			wr.STag = stag
		}
		wrs = append(wrs, wr)
	}
	return wrs
}

// post posts both operations and returns what a sends.
func (g *orderRig) post(stag region.STag) (fpdus [][]byte) {
	g.a.post(g.wrs(stag)...)
	return split(g.t, g.a.output())
}

// split cuts a stream into FPDUs.
func split(t testing.TB, b []byte) (out [][]byte) {
	d := mpa.Deframer{CRC: true}
	for len(b) > 0 {
		_, n, err := d.Next(b)
		if err != nil || n == 0 {
			t.Fatalf("stream ends in %x: %v", b[:min(len(b), 40)], err)
		}
		out, b = append(out, b[:n]), b[n:]
	}
	return out
}

// arrive gives b one FPDU and records what it does. A Write that was delivered must have been placed, since
// nothing after it is handled earlier.
func (g *orderRig) arrive(fpdu []byte) {
	before := len(g.trace)
	g.b.input(fpdu)
	g.look()
	if verbs.Opcode(segments(g.t, fpdu)[0].Control&0x1f) == verbs.OpWrite && len(g.trace) == before {
		g.t.Error("a Write was delivered and not placed")
	}
}

// look records Sends that were delivered and Writes that were placed.
func (g *orderRig) look() {
	word := wordOf(g.mem.Bytes())
	for pos := first; pos <= later; pos++ {
		if g.names[pos] == "Write" && !g.wrote[pos] && word == store(0, pos) {
			g.wrote[pos] = true
			g.trace = append(g.trace, pos)
		}
	}
	for ; g.got < len(g.b.got); g.got++ {
		g.trace = append(g.trace, int(g.b.got[g.got].Data[0]))
	}
}

// leave passes on the output of b, and records which operation each response answers.
func (g *orderRig) leave() {
	out := g.b.output()
	for _, s := range segments(g.t, out) {
		op := verbs.Opcode(s.Control & 0x1f)
		g.wire = append(g.wire, op)
		for pos := first; pos <= later; pos++ {
			if g.ops[pos].response == op && !slices.Contains(g.trace, pos) && g.matches(&s, pos) {
				g.trace = append(g.trace, pos)
				break
			}
		}
	}
	g.a.input(out)
}

// matches reports whether s can be the response to the operation at pos.
func (g *orderRig) matches(s *ddp.Segment, pos int) bool {
	return !s.Tagged || region.STag(s.STag) == g.sinkTags[pos]
}

// hold withholds from b what it needs to finish the first operation: memory for a message, or an executor for
// a request that may block.
func (g *orderRig) hold() {
	if g.ops[first].response == 0 {
		g.hog, _ = g.pool.Get(orderPool)
	} else {
		g.b.hung = true
	}
}

// release ends hold.
func (g *orderRig) release() {
	g.pool.Put(g.hog)
	g.b.hung = false
	g.b.replay(g.look)
}

// replay handles what was put off, as Conn.replay does, and calls each after every ULPDU.
func (e *halves) replay(each func()) {
	for off := &e.rcv.Backlog; off.Len() > 0 && e.err == nil; {
		kept := *off
		*off = engine.Backlog{}
		ev, err := e.rcv.Accept(kept.Next())
		if err != nil {
			e.fail(err)
			return
		}
		e.event(ev)
		kept.Pop(e.rcv.Pool())
		*off = kept
		each()
	}
}

// check compares what has happened with want.
func (g *orderRig) check(want []int) {
	if g.a.err != nil || g.b.err != nil {
		g.t.Fatalf("%v; %v", g.a.err, g.b.err)
	}
	if !slices.Equal(g.trace, want) {
		g.t.Fatalf("took effect: %s; want %s", g.say(g.trace), g.say(want))
	}
	g.effects()
}

// effects compares what the operations saw and left with what they would see and leave if they were carried
// out one after the other in the order of the trace.
func (g *orderRig) effects() {
	word := wordOf(rdmaptest.Pattern(orderSize))
	for _, pos := range g.trace {
		op := g.ops[pos]
		if op.seen != nil {
			if got, want := op.seen(g, pos), g.expect(pos, word); got != want {
				g.t.Errorf("%s saw %x, want %x", g.say([]int{pos}), got, want)
			}
		}
		word = op.after(word, pos)
	}
	if got := wordOf(g.mem.Bytes()); got != word {
		g.t.Errorf("the word is %x, want %x", got, word)
	}
	if !slices.IsSorted(g.mem.flushes) {
		g.t.Error("the later Flush ran first")
	}
	if !slices.Equal(g.done, []string{"1", "2"}) {
		g.t.Errorf("completed %v", g.done)
	}
}

// expect returns what the operation at pos has to see if the word has the given value.
func (g *orderRig) expect(pos int, word uint64) any {
	if g.names[pos] != "V" {
		return word
	}
	b := bytes.Clone(rdmaptest.Pattern(orderSize)[:orderSize-pos])
	copy(b, octetsOf(word))
	return string(rdmaptest.Castagnoli(b))
}

func (g *orderRig) say(trace []int) string {
	var s []string
	for _, pos := range trace {
		s = append(s, fmt.Sprintf("%s (%s)", [...]string{first: "first", later: "later"}[pos], g.names[pos]))
	}
	return strings.Join(s, ", ")
}
