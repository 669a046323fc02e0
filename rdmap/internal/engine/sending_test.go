package engine_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/internal/enginetest"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// segments lists the DDP segments in a stream of FPDUs.
func segments(t testing.TB, b []byte) (out []ddp.Segment) {
	t.Helper()
	d := mpa.Deframer{CRC: true}
	for len(b) > 0 {
		u, n, err := d.Next(b)
		var s ddp.Segment
		if err != nil || n == 0 || !s.Parse(u) {
			t.Fatalf("stream ends in %x: %v", b, err)
		}
		out = append(out, s)
		b = b[n:]
	}
	return out
}

func opcodes(t testing.TB, b []byte) (out []verbs.Opcode) {
	for _, s := range segments(t, b) {
		out = append(out, verbs.Opcode(s.Control&0x1f))
	}
	return out
}

// recorder appends its name when it completes.
type recorder struct {
	to   *[]string
	name string
}

func (r recorder) Complete(err error) {
	if err != nil {
		r.name += "!"
	}
	*r.to = append(*r.to, r.name)
}

// TestORD: when ORD is used up, the send queue stalls at its head (RFC 5040 Section 6.1). Responses to the
// peer are still sent.
func TestORD(t *testing.T) {
	a := newEngine(engineConfig{ord: 2, ird: 1})
	b := newEngine(engineConfig{ird: 2, recvs: 10, ord: 1})
	_, src := b.register(t, 100, region.RemoteRead)
	_, mine := a.register(t, 100, region.RemoteRead)
	sink, sreg := a.register(t, 100, region.ReadSink)
	_, bsink := b.register(t, 100, region.ReadSink)
	var log []string
	rd := func(name string) verbs.WR {
		return verbs.WR{Op: verbs.OpReadRequest, STag: src.STag(), Sink: sreg.STag(), Len: 100, Done: recorder{&log, name}}
	}
	a.post(
		verbs.WR{Op: verbs.OpSend, Done: recorder{&log, "s0"}},
		rd("r1"), rd("r2"), verbs.WR{Op: verbs.OpSend, Done: recorder{&log, "s1"}},
		rd("r3"), verbs.WR{Op: verbs.OpSend, Done: recorder{&log, "s2"}},
	)
	first := a.output()
	if got, want := opcodes(t, first), []verbs.Opcode{verbs.OpSend, verbs.OpReadRequest, verbs.OpReadRequest, verbs.OpSend}; !slices.Equal(got, want) {
		t.Fatalf("sent %v, want %v", got, want)
	}
	// The peer's Read is answered although our send queue is stalled.
	b.post(verbs.WR{Op: verbs.OpReadRequest, STag: mine.STag(), Sink: bsink.STag(), Len: 100})
	a.input(b.output())
	if got := opcodes(t, a.output()); !slices.Equal(got, []verbs.Opcode{verbs.OpReadResponse}) {
		t.Fatalf("sent %v while stalled, want one Read Response", got)
	}
	// Work requests complete in the order of submission: s1 waits for both Reads.
	if !slices.Equal(log, []string{"s0"}) {
		t.Fatalf("completed %v", log)
	}
	b.input(first)
	resp := b.output()
	half := mpa.FPDULen(14 + 100)
	a.input(resp[:half])
	if !slices.Equal(log, []string{"s0", "r1"}) {
		t.Fatalf("after one response completed %v", log)
	}
	if got := opcodes(t, a.output()); !slices.Equal(got, []verbs.Opcode{verbs.OpReadRequest, verbs.OpSend}) {
		t.Fatalf("sent %v after a slot was free", got)
	}
	a.input(resp[half:])
	if !slices.Equal(log, []string{"s0", "r1", "r2", "s1"}) {
		t.Fatalf("completed %v", log)
	}
	_ = sink
}

// TestAbortOrder: whatever has not completed does so with the error, once.
func TestAbortOrder(t *testing.T) {
	a := newEngine(engineConfig{ord: 1})
	_, sink := a.register(t, 10, region.ReadSink)
	var log []string
	a.post(
		verbs.WR{Op: verbs.OpReadRequest, Sink: sink.STag(), Len: 10, Done: recorder{&log, "r1"}},
		verbs.WR{Op: verbs.OpSend, Done: recorder{&log, "s1"}},
		verbs.WR{Op: verbs.OpReadRequest, Sink: sink.STag(), Len: 10, Done: recorder{&log, "r2"}},
		verbs.WR{Op: verbs.OpSend, Body: make([]byte, 10000), Done: recorder{&log, "s2"}},
	)
	a.output()
	a.fail(enginetest.ErrTest)
	a.output()
	if want := []string{"r1!", "s1!", "r2!", "s2!"}; !slices.Equal(log, want) {
		t.Fatalf("completed %v, want %v", log, want)
	}
}

// TestTerminateBehindMessage: the Terminate is sent at the end of a message, and messages that had not
// begun are not sent (RFC 5040 Section 5.4).
func TestTerminateBehindMessage(t *testing.T) {
	a := newEngine(engineConfig{mulpdu: engine.StagMULPDU})
	var log []string
	big := make([]byte, 3*buf.BatchOctets)
	a.post(
		verbs.WR{Op: verbs.OpWrite, STag: 1, Body: big, Done: recorder{&log, "w1"}},
		verbs.WR{Op: verbs.OpSend, Done: recorder{&log, "s1"}},
	)
	// One batch only.
	if !a.snd.Take(&a.wk) {
		t.Fatal("nothing to send")
	}
	if err := a.wk.Build(a.snd.MULPDU, true, a.snd.Table); err != nil {
		t.Fatal(err)
	}
	var wire []byte
	for _, p := range a.wk.Batch.Pieces() {
		wire = append(wire, p...)
	}
	a.due = a.snd.Wrote(&a.wk, false, a.due)
	a.fail(engine.VioVersion.Error(nil))
	wire = append(wire, a.output()...)
	segs := segments(t, wire)
	var octets int
	for i, s := range segs[:len(segs)-1] {
		if verbs.Opcode(s.Control&15) != verbs.OpWrite || s.Last != (i == len(segs)-2) {
			t.Fatalf("segment %d of %d: %v", i, len(segs), s.String())
		}
		octets = int(s.TO)
	}
	if last := segs[len(segs)-1]; last.Control != 0x47 || last.MSN != 1 || octets == 0 {
		t.Fatalf("ends with %v", last.String())
	}
	if want := []string{"s1!", "w1!"}; !slices.Equal(log, want) {
		t.Fatalf("completed %v, want %v", log, want)
	}
}

// TestNothingBehindTerminate: the Terminate is the last message, whatever is queued after it (RFC 5040
// Section 5.4).
func TestNothingBehindTerminate(t *testing.T) {
	e := newEngine(engineConfig{ird: 1})
	e.fail(engine.VioVersion.Error(nil))
	for range 2 { // before the Terminate is taken, and after
		e.post(verbs.WR{Op: verbs.OpSend})
		e.snd.Request(&engine.Request{Op: verbs.OpReadRequest})
		out := e.output()
		if segs := segments(t, out); len(segs) > 1 || len(segs) == 1 && segs[0].Control != 0x47 {
			t.Fatalf("sent %x", out)
		}
	}
	e = newEngine(engineConfig{})
	e.fail(engine.VioVersion.Error(nil))
	if e.snd.Shut(); len(e.output()) > 0 {
		t.Error("there is a Terminate although nothing more can be written")
	}
}

// TestPrune: messages that were taken and have not begun when the connection fails give back what they
// hold, and complete with the error.
func TestPrune(t *testing.T) {
	a := newEngine(engineConfig{ird: 2, ext: verbs.Ext7306, mulpdu: engine.StagMULPDU})
	b := newEngine(engineConfig{ord: 2, ext: verbs.Ext7306})
	src, reg := a.register(t, 2*engine.StageLimit, region.RemoteRead)
	_, word := a.register(t, 8, region.Atomic)
	_, sink := b.register(t, len(src), region.ReadSink)
	b.post(
		verbs.WR{Op: verbs.OpReadRequest, STag: reg.STag(), Sink: sink.STag(), Len: uint32(len(src))},
		verbs.WR{Op: verbs.OpAtomicRequest, STag: word.STag(), Atomic: &verbs.Atomic{}},
	)
	a.input(b.output())
	var d enginetest.Done
	a.post(verbs.WR{Op: verbs.OpSend, Body: make([]byte, 2*verbs.CopyLimit)}, verbs.WR{Op: verbs.OpSend, Head: []byte("taken"), Done: &d})
	if !a.snd.Take(&a.wk) {
		t.Fatal("nothing to send")
	}
	if err := a.wk.Build(a.snd.MULPDU, true, a.snd.Table); err != nil {
		t.Fatal(err)
	}
	a.due = a.snd.Wrote(&a.wk, false, a.due)
	if len(a.wk.Items()) != 2 || a.snd.Copied == 0 { // the Atomic, which waits until the response is written, and that Send
		t.Fatalf("%d items are left, %d octets", len(a.wk.Items()), a.snd.Copied)
	}
	a.fail(enginetest.ErrTest)
	if out := a.output(); len(out) > 0 || a.snd.Copied != 0 || d.N != 1 || !errors.Is(d.Err, enginetest.ErrTest) {
		t.Errorf("sent %x, %d octets held, completed %d times with %v", out, a.snd.Copied, d.N, d.Err)
	}
}

// TestSlots: no more requests of the peer are held than there are slots.
func TestSlots(t *testing.T) {
	e := newEngine(engineConfig{ird: 2})
	for i, want := range []bool{true, true, false} {
		if got := e.snd.Request(&engine.Request{Op: verbs.OpReadRequest}); got != want {
			t.Errorf("request %d: %v", i, got)
		}
	}
	if e.output(); e.snd.FreeSlots() != 2 || !e.snd.Request(&engine.Request{Op: verbs.OpReadRequest}) {
		t.Errorf("%d slots are free when everything is answered", e.snd.FreeSlots())
	}
}

// TestInterleave: with a stag peer, whole Sends are sent between the batches of a Read Response. With other
// peers they are not, since few receivers expect that.
func TestInterleave(t *testing.T) {
	for _, stag := range []bool{false, true} {
		a := newEngine(engineConfig{mulpdu: engine.StagMULPDU, ird: 1, interleave: stag})
		b := newEngine(engineConfig{recvs: 10, ord: 1})
		src, reg := a.register(t, 4*buf.BatchOctets, region.RemoteRead)
		copy(src, enginetest.Pattern(len(src)))
		sink, sreg := b.register(t, len(src), region.ReadSink)
		b.post(verbs.WR{Op: verbs.OpReadRequest, STag: reg.STag(), Sink: sreg.STag(), Len: uint32(len(src))})
		a.input(b.output())
		if !a.snd.Take(&a.wk) {
			t.Fatal("no response")
		}
		_ = a.wk.Build(a.snd.MULPDU, true, a.snd.Table)
		var wire []byte
		for _, p := range a.wk.Batch.Pieces() {
			wire = append(wire, p...)
		}
		a.due = a.snd.Wrote(&a.wk, false, a.due)
		a.post(verbs.WR{Op: verbs.OpSend, Head: []byte("quick")})
		wire = append(wire, a.output()...)
		ops := opcodes(t, wire)
		at := slices.Index(ops, verbs.OpSend)
		if last := at == len(ops)-1; last == stag {
			t.Fatalf("stag=%v: the Send is number %d of %d", stag, at, len(ops))
		}
		b.input(wire)
		if b.err != nil || b.read != 1 || len(b.got) != 1 || !bytes.Equal(sink, src) {
			t.Fatalf("stag=%v: %v, %d reads, %d messages", stag, b.err, b.read, len(b.got))
		}
	}
}

// TestResponsesInOrder: Read Responses are sent in the order of their requests, including one of length
// zero.
func TestResponsesInOrder(t *testing.T) {
	a, b := newEngine(engineConfig{ord: 4}), newEngine(engineConfig{ird: 4})
	src, reg := b.register(t, 5000, region.RemoteRead)
	copy(src, enginetest.Pattern(5000))
	sink, sreg := a.register(t, 5000, region.ReadSink)
	var log []string
	for i, n := range []uint32{5000, 0, 1, 0} {
		a.post(verbs.WR{
			Op: verbs.OpReadRequest, STag: reg.STag(), Sink: sreg.STag(), Len: n,
			Done: recorder{&log, string(rune('a' + i))},
		})
	}
	exchange(a, b)
	if !slices.Equal(log, []string{"a", "b", "c", "d"}) || !bytes.Equal(sink, src) {
		t.Fatalf("completed %v; %v, %v", log, a.err, b.err)
	}
}

// TestCancelledRead: the Response to a cancelled Read is checked and dropped, and the next Read works.
func TestCancelledRead(t *testing.T) {
	a, b := newEngine(engineConfig{ord: 2}), newEngine(engineConfig{ird: 2})
	src, reg := b.register(t, 5000, region.RemoteRead)
	copy(src, enginetest.Pattern(5000))
	gone, greg := a.register(t, 5000, region.ReadSink)
	sink, sreg := a.register(t, 5000, region.ReadSink)
	var d1, d2 enginetest.Done
	a.post(verbs.WR{Op: verbs.OpReadRequest, STag: reg.STag(), Sink: greg.STag(), Len: 5000, Done: &d1})
	a.post(verbs.WR{Op: verbs.OpReadRequest, STag: reg.STag(), Sink: sreg.STag(), Len: 5000, Done: &d2})
	out := a.output()
	if a.snd.Cancel(&d1) {
		t.Fatal("a Read that had been sent was removed from the queue")
	}
	if err := greg.Invalidate(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.input(out)
	exchange(a, b)
	if a.err != nil || !bytes.Equal(gone, make([]byte, 5000)) || !bytes.Equal(sink, src) || d2.N != 1 {
		t.Fatalf("%v", a.err)
	}
	// A Read that still waits can be removed.
	a.snd.ORD = 0
	a.post(verbs.WR{Op: verbs.OpReadRequest, STag: reg.STag(), Sink: sreg.STag(), Len: 5000, Done: &d2})
	if !a.snd.Cancel(&d2) || len(a.output()) > 0 {
		t.Fatal("a Read that had been removed was sent")
	}
}

// TestMSNWraps sends across the end of the MSN space.
func TestMSNWraps(t *testing.T) {
	a := newEngine(engineConfig{})
	a.wk.MSN()[0] = 1<<32 - 2
	a.post(verbs.WR{Op: verbs.OpSend}, verbs.WR{Op: verbs.OpSend}, verbs.WR{Op: verbs.OpSend})
	segs := segments(t, a.output())
	if segs[0].MSN != 1<<32-1 || segs[1].MSN != 0 || segs[2].MSN != 1 {
		t.Fatalf("MSNs %v", segs)
	}
}

// TestTerminateInPieces: a Terminate in several segments is decoded, and what follows its parts is
// ignored.
func TestTerminateInPieces(t *testing.T) {
	u := enginetest.ULPDU(t, enginetest.Unhex(t, enginetest.GoldTermRead))
	payload := append(bytes.Clone(u[18:]), 1, 2, 3, 4)
	e := newEngine(engineConfig{})
	for off := 0; off < len(payload); off += 5 {
		n := min(5, len(payload)-off)
		h := bytes.Clone(u[:18])
		binary.BigEndian.PutUint32(h[14:], uint32(off))
		if off+n < len(payload) {
			h[0] &^= 0x40
		}
		e.input(enginetest.FPDU(append(h, payload[off:off+n]...)))
	}
	te, ok := e.err.(*verbs.TerminateError)
	if !ok || te.Terminate.Code != (verbs.TermCode{Layer: 0, EType: 1, Code: 1}) || len(te.Terminate.Read) != 28 {
		t.Fatalf("%v", e.err)
	}
}

// TestWorkSpares runs batches of many sizes: memory that is passed on holds nothing of its former content.
func TestWorkSpares(t *testing.T) {
	var w engine.Work
	for size := 1; size < 3*buf.PooledLen; size = size*3/2 + 1 {
		for k := range size {
			w.Add(uint32(k + 1))
		}
		for k := range w.Items() {
			if w.Items()[k].Octets() != uint32(k+1) {
				t.Fatalf("burst of %d: item %d is %d", size, k, w.Items()[k].Octets())
			}
		}
		box := w.Box()
		w.Drop(size)
		if cap(w.Items()) > buf.RingKeep {
			t.Fatalf("burst of %d: room for %d items kept", size, cap(w.Items()))
		}
		if box == nil {
			continue
		}
		for _, it := range *box {
			if it.Octets() != 0 {
				t.Fatalf("burst of %d: memory is not clear", size)
			}
		}
	}
}
