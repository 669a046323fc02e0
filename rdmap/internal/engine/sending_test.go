package engine_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
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
	noErr(t, a.wk.Build(a.snd.MULPDU, true, a.snd.Table))
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
	var d rdmaptest.Done
	a.post(verbs.WR{Op: verbs.OpSend, Body: make([]byte, 2*verbs.CopyLimit)}, verbs.WR{Op: verbs.OpSend, Head: []byte("taken"), Done: &d})
	if !a.snd.Take(&a.wk) {
		t.Fatal("nothing to send")
	}
	noErr(t, a.wk.Build(a.snd.MULPDU, true, a.snd.Table))
	a.due = a.snd.Wrote(&a.wk, false, a.due)
	if len(a.wk.Items()) != 2 || a.snd.Copied == 0 { // the Atomic, which waits until the response is written, and that Send
		t.Fatalf("%d items are left, %d octets", len(a.wk.Items()), a.snd.Copied)
	}
	a.fail(rdmaptest.ErrTest)
	if out := a.output(); len(out) > 0 || a.snd.Copied != 0 || d.N != 1 || !errors.Is(d.Err, rdmaptest.ErrTest) {
		t.Errorf("sent %x, %d octets held, completed %d times with %v", out, a.snd.Copied, d.N, d.Err)
	}
}
