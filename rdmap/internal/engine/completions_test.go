package engine_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// requests are the operations that get a response.
var requests = []string{"Read", "At", "F", "V", "AW"}

// TestCompletionsInOrder: messages are sent in the order of their submission, and work requests complete
// in that order, whatever is known earlier.
//
// spec: rdmap 7.4 submission
func TestCompletionsInOrder(t *testing.T) {
	g := newOrderRig(t, "Send", "Send")
	names := []string{"Send", "Read", "Write", "At", "Imm", "F", "V", "AW", "Send"}
	var want, sent []verbs.Opcode
	for _, name := range names {
		wr := orderOps[name].wr(g, first)
		wr.STag, wr.Done = g.region.STag(), recorder{&g.done, name}
		g.a.post(wr)
		want = append(want, wr.Op)
	}
	out := g.a.output()
	if sent = opcodes(t, out); !slices.Equal(sent, want) {
		t.Fatalf("sent %v, want %v", sent, want)
	}
	// Each response makes one more request known; what was sent after it is known already.
	g.b.input(out)
	after := []int{1, 3, 5, 6, 7, 9}
	for i, fpdu := range append([][]byte{nil}, split(t, g.b.output())...) {
		g.a.input(fpdu)
		if !slices.Equal(g.done, names[:after[i]]) {
			t.Fatalf("after %d responses completed %v, want %v", i, g.done, names[:after[i]])
		}
	}
}

// TestCompletionIsLocal: a Send and a Write complete when their octets have been handed down, although
// the peer has not seen one of them.
//
// spec: rdmap 7.4 local
func TestCompletionIsLocal(t *testing.T) {
	a := newEngine(engineConfig{ext: engine.ExtAll})
	var log []string
	for _, n := range []int{8, 3 * verbs.CopyLimit} {
		for _, op := range []verbs.Opcode{verbs.OpSend, verbs.OpWrite} {
			a.post(verbs.WR{Op: op, STag: 1, Body: make([]byte, n), Done: recorder{&log, "done"}})
		}
	}
	a.post(verbs.WR{Op: verbs.OpImmediate, Body: make([]byte, 8), Done: recorder{&log, "done"}})
	if len(log) != 0 {
		t.Fatal("complete before anything was handed down")
	}
	a.output()
	if want := slices.Repeat([]string{"done"}, 5); !slices.Equal(log, want) {
		t.Fatalf("completed %v, want %v", log, want)
	}
}

// TestResponseCompletes: requests complete when all of their response has been delivered.
//
// spec: rdmap 7.4 response
func TestResponseCompletes(t *testing.T) {
	for _, name := range requests {
		g := newOrderRig(t, name, name)
		g.b.snd.MULPDU = 1000 // a Read Response in pieces
		wr := g.ops[first].wr(g, first)
		wr.STag, wr.Answer, wr.Done = g.region.STag(), &g.answers[first], recorder{&g.done, name}
		g.a.post(wr)
		g.b.input(g.a.output())
		fpdus := split(t, g.b.output())
		if name == "Read" && len(fpdus) < 8 {
			t.Fatalf("a Read Response of %d FPDUs", len(fpdus))
		}
		for _, f := range fpdus {
			if len(g.done) != 0 {
				t.Fatalf("%s completed before its response was delivered", name)
			}
			g.a.input(f)
		}
		if !slices.Equal(g.done, []string{name}) {
			t.Fatalf("%s completed %v; %v", name, g.done, g.a.err)
		}
	}
}

// TestEmptyRequestsWait: requests for no octets wait for what came before them too.
//
// spec: rdmap 7.4 start
func TestEmptyRequestsWait(t *testing.T) {
	for _, op := range []verbs.Opcode{verbs.OpReadRequest, verbs.OpFlushRequest, verbs.OpVerifyRequest} {
		g := newOrderRig(t, "Send", "Send")
		g.a.post(verbs.WR{Op: verbs.OpSend, Head: []byte{first}}, verbs.WR{Op: op, STag: g.region.STag(), Sink: g.sinkTags[first]})
		g.hold()
		g.b.input(g.a.output())
		if out := g.b.output(); len(out) > 0 {
			t.Fatalf("%v answered by %v before the Send was delivered", op, opcodes(t, out))
		}
		g.release()
		if out := opcodes(t, g.b.output()); len(out) != 1 || out[0] != op+1 || len(g.b.got) != 1 {
			t.Fatalf("%v: then %v, %d messages", op, out, len(g.b.got))
		}
	}
}

// TestNoPeeking: what is delivered is complete: a Send, the Writes before a Send or an Immediate, the sink
// of a Read.
//
// spec: rdmap 7.4 contents
func TestNoPeeking(t *testing.T) {
	for _, signal := range []verbs.Opcode{verbs.OpSend, verbs.OpImmediate} {
		a := newEngine(engineConfig{ord: 1, ext: engine.ExtAll, mulpdu: 200})
		b := newEngine(engineConfig{ird: 1, ext: engine.ExtAll, mulpdu: 200, recvs: 2})
		mem, reg := b.register(t, 3000, region.RemoteRead|region.RemoteWrite)
		sink, sreg := a.register(t, 3000, region.ReadSink)
		a.post(
			verbs.WR{Op: verbs.OpWrite, STag: reg.STag(), Body: rdmaptest.Pattern(3000)},
			verbs.WR{Op: signal, Head: rdmaptest.Pattern(8)},
			verbs.WR{Op: verbs.OpSend, Head: rdmaptest.Pattern(1000)},
		)
		for _, f := range split(t, a.output()) {
			b.input(f)
			if len(b.got) > 0 && !bytes.Equal(mem, rdmaptest.Pattern(3000)) {
				t.Fatalf("%v was delivered before the Write was placed", signal)
			}
		}
		if len(b.got) != 2 || !bytes.Equal(b.got[1].Data, rdmaptest.Pattern(1000)) || !bytes.Equal(b.got[0].Data, rdmaptest.Pattern(8)) {
			t.Fatalf("delivered %d messages, %v", len(b.got), b.err)
		}
		var d rdmaptest.Done
		a.post(verbs.WR{Op: verbs.OpReadRequest, STag: reg.STag(), Sink: sreg.STag(), Len: 3000, Done: &d})
		b.input(a.output())
		for _, f := range split(t, b.output()) {
			if d.N > 0 {
				t.Fatal("the Read completed before all its octets had arrived")
			}
			a.input(f)
		}
		if d.N != 1 || !bytes.Equal(sink, rdmaptest.Pattern(3000)) {
			t.Fatal("the Read did not complete, or its sink is incomplete")
		}
	}
}

// TestTouchedBuffers: octets that change while they are lent are indeterminate, but the stream and the
// messages around them are not. What Post has copied is not lent.
//
// spec: rdmap 7.4 touched
func TestTouchedBuffers(t *testing.T) {
	cfg := engineConfig{ord: 2, ird: 2, recvs: 9, ext: engine.ExtAll, mulpdu: engine.StagMULPDU}
	a, b := newEngine(cfg), newEngine(cfg)
	mem, reg := b.register(t, 4*verbs.CopyLimit, region.RemoteRead|region.RemoteWrite|region.Atomic)
	source, err := b.snd.Table.Register(mem, region.RemoteRead)
	noErr(t, err)
	sink, sreg := a.register(t, len(mem), region.ReadSink)
	long, short := rdmaptest.Pattern(len(mem)), rdmaptest.Pattern(verbs.CopyLimit)
	a.post(
		verbs.WR{Op: verbs.OpSend, Body: short},
		verbs.WR{Op: verbs.OpWrite, STag: reg.STag(), Body: long},
		verbs.WR{Op: verbs.OpSend, Body: short},
	)
	clear(long[:8])
	clear(short)
	b.input(a.output())
	if b.err != nil || len(b.got) != 2 || !bytes.Equal(mem[8:], rdmaptest.Pattern(len(mem))[8:]) {
		t.Fatalf("%d messages, %v", len(b.got), b.err)
	}
	for _, m := range b.got {
		if !bytes.Equal(m.Data, rdmaptest.Pattern(verbs.CopyLimit)) {
			t.Fatal("a payload that was copied has changed")
		}
	}
	// A later request stores to the source of a Read, and so does the peer itself.
	a.post(
		verbs.WR{Op: verbs.OpReadRequest, STag: source.STag(), Sink: sreg.STag(), Len: uint32(len(mem))},
		verbs.WR{Op: verbs.OpAtomicWriteRequest, STag: reg.STag(), TO: 8, Head: make([]byte, 8)},
	)
	b.input(a.output())
	clear(mem[16:24])
	a.input(b.output())
	if a.err != nil || a.read != 2 || !bytes.Equal(sink[24:], rdmaptest.Pattern(len(mem))[24:]) {
		t.Fatalf("%d requests completed, %v", a.read, a.err)
	}
}

// TestStoreBesideResponse: peers may store to octets that are being read. Neither a Write on the same
// stream nor an atomic operation on another one damages a Read Response that waits for room in the socket:
// its content is indeterminate, but its CRC is right.
//
// spec: rdmap 7.1 Read-Write
// spec: rdmap 7.4 streams
func TestStoreBesideResponse(t *testing.T) {
	cfg := engineConfig{ord: 2, ird: 2, ext: engine.ExtAll, mulpdu: engine.StagMULPDU}
	a, b, c, d := newEngine(cfg), newEngine(cfg), newEngine(cfg), newEngine(cfg)
	mem, reg := b.register(t, 4*engine.StageLimit, region.RemoteRead|region.RemoteWrite)
	other, err := d.snd.Table.Register(mem, region.Atomic)
	noErr(t, err)
	_, sink := a.register(t, len(mem), region.ReadSink)
	a.post(verbs.WR{Op: verbs.OpReadRequest, STag: reg.STag(), Sink: sink.STag(), Len: uint32(len(mem))})
	b.input(a.output())
	if !b.snd.Take(&b.wk) {
		t.Fatal("no response")
	}
	noErr(t, b.wk.Build(b.snd.MULPDU, true, b.snd.Table))
	a.post(verbs.WR{Op: verbs.OpWrite, STag: reg.STag(), Head: make([]byte, 64)})
	b.input(a.output())
	c.post(verbs.WR{Op: verbs.OpAtomicRequest, STag: other.STag(), TO: 128, Atomic: &verbs.Atomic{Operand: 1}})
	exchange(c, d)
	for _, p := range b.wk.Batch.Pieces() {
		a.input(p)
	}
	if a.err != nil || a.read != 1 || c.read != 1 {
		t.Fatalf("%d and %d requests completed; %v", a.read, c.read, a.err)
	}
}
