package engine_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
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

// modelKinds are the operations of the model; the last one is a Read that is refused.
var modelKinds = []string{"Send", "Write", "Read", "At", "Imm", "F", "V", "AW", "refused"}

// modelOffsets are the offsets of the words on which operations act.
var modelOffsets = []int{0, 8, 4096, orderSize - 8}

// modelOp is one operation that was posted.
type modelOp struct {
	id, off int
	kind    string
	op      verbs.Opcode
	answer  verbs.Answer
	sink    []byte
	done    rdmaptest.Done
	at      int  // its position among the completions
	arrived bool // completely
	seen    bool // it has taken effect
}

func (op *modelOp) String() string { return fmt.Sprintf("%s (operation %d)", op.kind, op.id) }

func (op *modelOp) message() bool { return op.kind == "Send" || op.kind == "Imm" }

func (op *modelOp) request() bool { return engine.Asks(op.op) }

func (op *modelOp) value() []byte { return octetsOf(uint64(op.id) + 0x5700) }

// modelFPDU is an FPDU on its way to the responder.
type modelFPDU struct {
	b   []byte
	op  *modelOp
	seg ddp.Segment
}

// orderModel knows what a requester and a responder may do. Writes are placed when they arrive, messages are
// delivered in order, and requests are carried out one by one, in order, and after the messages before
// them. There are no other rules.
type orderModel struct {
	t      testing.TB
	a, b   *halves
	pool   *buf.Pool
	hog    buf.Mem
	held   bool // hog holds all memory
	sim    *pmemtest.Sim
	stag   region.STag
	source region.STag // of Reads
	want   []byte      // what memory has to hold
	found  [][]byte
	ops    []*modelOp
	sent   int // of ops
	wire   []modelFPDU
	got    int // messages
	count  int // completions
}

// flushNotes is memory that records what each flush has made durable.
type flushNotes struct {
	*pmemtest.Sim
	m *orderModel
}

// ReadBack reads what was stored, as that of notedMemory does.
func (f flushNotes) ReadBack(w io.Writer, off, n int) error {
	return f.Guard(off, n, func() error { _, err := w.Write(f.Bytes()[off : off+n]); return err })
}

func (f flushNotes) Persist(off, n int) error {
	f.Mark()
	err := f.Sim.Persist(off, n)
	f.m.found = append(f.m.found, bytes.Clone(f.Told().Durable()[off:off+n]))
	return err
}

// modelDone records when an operation completes.
type modelDone struct {
	m  *orderModel
	op *modelOp
}

func (d modelDone) Complete(err error) {
	if err == nil && d.op.request() && !d.op.seen {
		d.m.t.Errorf("%s completed before it was answered", d.op)
	}
	d.m.count++
	d.op.at = d.m.count
	d.op.done.Complete(err)
}

func newOrderModel(t testing.TB, how byte) *orderModel {
	m := &orderModel{t: t, pool: buf.NewPool(orderPool), sim: pmemtest.OpenSim(rdmaptest.Pattern(orderSize), nil), want: rdmaptest.Pattern(orderSize)}
	size := []int{engine.StagMULPDU, 1442, 300, 60}[how&3]
	cfg := engineConfig{ord: 3, ird: 3, recvs: 1000, size: 256, ext: engine.ExtAll, mulpdu: size, pool: m.pool}
	m.a = newEngine(cfg)
	cfg.mulpdu = max(size, 300)
	m.b = newEngine(cfg)
	m.b.rcv.SetKeep(true)
	var memory region.Memory = flushNotes{m.sim, m}
	if how&4 != 0 {
		memory = struct{ region.Memory }{memory} // without a guard
	}
	register := func(access region.Access) region.STag {
		reg := must(m.b.snd.Table.RegisterMemory(memory, region.Options{Access: access}))(t)
		return reg.STag()
	}
	// A registered memory is known to the whole process, with everything that it refers to.
	t.Cleanup(func() {
		if err := m.b.snd.Table.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	m.stag = register(rdmaptest.CommitRights | region.Atomic)
	if m.source = m.stag; how&8 != 0 {
		m.source = register(region.RemoteRead) // its octets are lent to the socket
	}
	return m
}

// post posts an operation on one of the words. Those on the last word are long.
func (m *orderModel) post(kind string, word int) {
	op := &modelOp{id: len(m.ops), kind: kind, off: modelOffsets[word]}
	wr := verbs.WR{STag: m.stag, TO: uint64(op.off), Answer: &op.answer, Done: modelDone{m, op}}
	long := word == len(modelOffsets)-1
	switch kind {
	case "Send", "Imm":
		wr.Op, wr.Head = verbs.OpImmediate, op.value()
		if kind == "Send" {
			wr.Op = verbs.OpSend
			if long {
				wr.Head = slices.Concat(op.value(), rdmaptest.Pattern(192))
			}
		}
	case "Write":
		wr.Op, wr.Body = verbs.OpWrite, op.value()
		if long {
			wr.TO, wr.Body = 0, bytes.Repeat(op.value(), orderSize/8)
		}
	case "Read", "refused":
		var sink region.Region
		op.sink, sink = m.a.register(m.t, orderSize, region.ReadSink)
		wr.Op, wr.STag, wr.TO, wr.Len, wr.Sink = verbs.OpReadRequest, m.source, 0, orderSize, sink.STag()
		if kind == "refused" {
			wr.STag = 0
		}
	case "At":
		wr.Op, wr.Atomic = verbs.OpAtomicRequest, &verbs.Atomic{Operand: uint64(op.id) << 32}
	case "F":
		wr.Op, wr.Len, wr.Flags = verbs.OpFlushRequest, 8, verbs.FlushPersistent
	case "V":
		wr.Op, wr.TO, wr.Len = verbs.OpVerifyRequest, 0, orderSize
	case "AW":
		wr.Op, wr.Head = verbs.OpAtomicWriteRequest, op.value()
	}
	op.op = wr.Op
	m.ops = append(m.ops, op)
	m.a.post(wr)
}

// speak puts the output of the requester on the wire; it must have the order of submission.
func (m *orderModel) speak() {
	for _, b := range split(m.t, m.a.output()) {
		if m.sent == len(m.ops) {
			m.t.Fatal("more was sent than posted")
		}
		f := modelFPDU{b: b, op: m.ops[m.sent], seg: segments(m.t, b)[0]}
		if got := verbs.Opcode(f.seg.Control & 0x1f); got != f.op.op {
			m.t.Fatalf("%s was sent as %v", f.op, got)
		}
		if f.seg.Last {
			m.sent++
		}
		m.wire = append(m.wire, f)
	}
}

// arrive gives the responder n FPDUs.
func (m *orderModel) arrive(n int) {
	for range min(n, len(m.wire)) {
		f := &m.wire[0]
		m.wire = m.wire[1:]
		if f.op.kind == "Write" {
			payload := f.b[mpa.HeaderLen+ddp.TaggedLen:]
			copy(m.want[f.seg.TO:], payload[:int(binary.BigEndian.Uint16(f.b))-ddp.TaggedLen])
			f.op.seen = f.seg.Last
		}
		f.op.arrived = f.seg.Last
		m.b.input(f.b)
		m.messages()
		m.check()
	}
}

// messages checks that messages are delivered in order, and at once if there is memory.
func (m *orderModel) messages() {
	for _, op := range m.ops {
		if !op.message() || op.seen {
			continue
		}
		if m.got == len(m.b.got) {
			if op.arrived && !m.held && m.b.rcv.Backlog.Len() == 0 {
				m.t.Fatalf("%s was not delivered although there is memory", op)
			}
			return
		}
		if data := m.b.got[m.got].Data; !op.arrived || !bytes.Equal(data[:8], op.value()) {
			m.t.Fatalf("delivered %x, but %s is due", data[:8], op)
		}
		op.seen = true
		m.got++
	}
}

// release gives back the memory for messages, and handles what was put off.
func (m *orderModel) release() {
	if !m.held {
		return
	}
	m.pool.Put(m.hog)
	m.held = false
	m.b.replay(m.messages)
	m.messages()
	m.check()
}

// answer lets the responder carry out the requests that it may, and respond.
func (m *orderModel) answer() (any bool) {
	hung := m.b.hung
	out := m.b.output()
	var wants []func()
	for _, s := range segments(m.t, out) {
		if s.Last {
			wants = append(wants, m.answered(verbs.Opcode(s.Control&0x1f), hung))
		}
	}
	m.a.input(out)
	for _, want := range wants {
		want()
	}
	m.check()
	return len(out) > 0
}

// answered handles a response, which has to be that to the oldest request. It returns a function that checks
// the answer once it has arrived.
func (m *orderModel) answered(resp verbs.Opcode, hung bool) (check func()) {
	for _, op := range m.ops {
		switch {
		case !op.request():
			if !op.seen {
				m.t.Fatalf("%v before %s was delivered", resp, op)
			}
			continue
		case op.seen:
			continue
		case !op.arrived:
			m.t.Fatalf("%v, but %s has not arrived", resp, op)
		case op.kind == "refused" && resp == verbs.OpTerminate:
			return func() {}
		case resp != op.op+1 || op.kind == "refused":
			m.t.Fatalf("%v in answer to %s", resp, op)
		case hung && (op.kind == "F" || op.kind == "V"):
			m.t.Fatalf("%s was answered without being carried out", op)
		}
		op.seen = true
		return m.effect(op)
	}
	m.t.Fatalf("%v in answer to nothing", resp)
	return nil
}

// effect applies the request to the model, and returns a function that checks its answer.
func (m *orderModel) effect(op *modelOp) (check func()) {
	before := bytes.Clone(m.want)
	word := m.want[op.off:][:8]
	same := func(got, want []byte) {
		if !bytes.Equal(got, want) {
			m.t.Fatalf("%s returned something else than the model", op)
		}
	}
	switch op.kind {
	case "Read":
		return func() { same(op.sink, before) }
	case "At":
		copy(word, octetsOf(wordOf(word)+uint64(op.id)<<32))
		return func() { same(octetsOf(op.answer.Old), before[op.off:][:8]) }
	case "F":
		found := m.found[0]
		m.found = m.found[1:]
		return func() { same(found, before[op.off:][:8]) }
	case "V":
		return func() { same(op.answer.Sum[:op.answer.N], rdmaptest.Castagnoli(before)) }
	default: // AW
		copy(word, op.value())
		return func() {}
	}
}
