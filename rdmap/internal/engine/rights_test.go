package engine_test

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestRights tries every operation with every set of rights: an operation succeeds exactly if the set has its right, and
// memory changes only then.
func TestRights(t *testing.T) {
	ops := []struct {
		name string
		need region.Access
		code verbs.TermCode
		run  func(t *testing.T, e *halves, stag region.STag)
	}{
		{"write", region.RemoteWrite, verbs.TermCode{Layer: 1, EType: 1, Code: 0}, func(t *testing.T, e *halves, stag region.STag) {
			e.input(rdmaptest.FPDU(writeOf(t, stag, 0)))
		}},
		{"read", region.RemoteRead, verbs.TermCode{Layer: 0, EType: 1, Code: 2}, func(t *testing.T, e *halves, stag region.STag) {
			e.input(rdmaptest.FPDU(rdmaptest.ReadRequest(t, stag, 0, 16)))
			e.output()
		}},
		{"invalidate", region.RemoteInvalidate, verbs.TermCode{Layer: 0, EType: 1, Code: 9}, func(t *testing.T, e *halves, stag region.STag) {
			u := rdmaptest.Patch(t, rdmaptest.Gold.SendInv, 13, 1)
			u[2], u[3], u[4], u[5] = byte(stag>>24), byte(stag>>16), byte(stag>>8), byte(stag)
			e.input(rdmaptest.FPDU(u))
		}},
		{"response", region.ReadSink, verbs.TermCode{Layer: 1, EType: 1, Code: 0}, func(t *testing.T, e *halves, stag region.STag) {
			e.post(verbs.WR{Op: verbs.OpReadRequest, Sink: stag, Len: 16})
			e.output()
			e.input(rdmaptest.FPDU(rdmaptest.ReadResponse(t, stag, 0)))
		}},
	}
	for a := range region.ReadSink << 1 {
		for _, op := range ops {
			e := newEngine(engineConfig{recvs: 1, ird: 1, ord: 1})
			mem, reg := e.register(t, 16, a)
			op.run(t, e, reg.STag())
			allowed := a&op.need != 0
			pe, _ := e.err.(*verbs.ProtocolError)
			switch {
			case allowed && e.err != nil:
				t.Fatalf("%s with %v: %v", op.name, a, e.err)
			case !allowed && (pe == nil || pe.Code != op.code):
				t.Fatalf("%s with %v: error %v, want code %v", op.name, a, e.err, op.code)
			case !allowed && !bytes.Equal(mem, make([]byte, 16)):
				t.Fatalf("%s with %v: memory changed", op.name, a)
			}
		}
	}
}

// requestRights is the right that each request of RFC 7306 and of the commit draft needs.
var requestRights = []struct {
	name   string
	wr     verbs.WR
	need   region.Access
	stores bool
}{
	{"FetchAdd", verbs.WR{Op: verbs.OpAtomicRequest, Atomic: &verbs.Atomic{Op: verbs.AtomicFetchAdd, Operand: 1}}, region.Atomic, true},
	{"CmpSwap", verbs.WR{Op: verbs.OpAtomicRequest, Atomic: &verbs.Atomic{Op: verbs.AtomicCmpSwap, Operand: 1, Mask: 1}}, region.Atomic, true},
	{"Swap", verbs.WR{Op: verbs.OpAtomicRequest, Atomic: &verbs.Atomic{Op: verbs.AtomicSwap, Operand: 1}}, region.Atomic, true},
	{"atomic write", verbs.WR{Op: verbs.OpAtomicWriteRequest, Body: rdmaptest.Pattern(9)[1:]}, region.RemoteWrite, true},
	{"flush", verbs.WR{Op: verbs.OpFlushRequest, Len: 128}, region.FlushVisible, false},
	{"flush G", verbs.WR{Op: verbs.OpFlushRequest, Len: 128, Flags: verbs.FlushVisible}, region.FlushVisible, false},
	{"flush P", verbs.WR{Op: verbs.OpFlushRequest, Len: 128, Flags: verbs.FlushPersistent}, region.FlushPersistent, false},
	{
		"flush G and P",
		verbs.WR{Op: verbs.OpFlushRequest, Len: 128, Flags: verbs.FlushVisible | verbs.FlushPersistent},
		region.FlushVisible | region.FlushPersistent, false,
	},
	{"flush of nothing", verbs.WR{Op: verbs.OpFlushRequest, Flags: verbs.FlushVisible | verbs.FlushPersistent}, region.FlushVisible | region.FlushPersistent, false},
	{"verify, hash returned", verbs.WR{Op: verbs.OpVerifyRequest, Len: 128}, region.Verify | region.RemoteRead, false},
	{"compare", verbs.WR{Op: verbs.OpVerifyRequest, Len: 128, Body: rdmaptest.Castagnoli(make([]byte, 128))}, region.Verify, false},
	{"compare 64", verbs.WR{Op: verbs.OpVerifyRequest, Len: 64, Body: rdmaptest.Castagnoli(make([]byte, 64))}, region.Verify, false},
	{"compare 63", verbs.WR{Op: verbs.OpVerifyRequest, Len: 63, Body: rdmaptest.Castagnoli(make([]byte, 63))}, region.Verify | region.RemoteRead, false},
	{"read", verbs.WR{Op: verbs.OpReadRequest, Len: 128}, region.RemoteRead, false},
	{"read of nothing", verbs.WR{Op: verbs.OpReadRequest}, 0, false},
}

// TestRequestRights tries every request with every set of rights: it is executed exactly if the set has all rights that
// it needs, and stores and persists only then.
func TestRequestRights(t *testing.T) {
	for access := range region.ReadSink << 1 {
		for _, tt := range requestRights {
			a, b := newEngine(engineConfig{ord: 1, ext: engine.ExtAll}), newEngine(engineConfig{ird: 1, ext: engine.ExtAll})
			mem := &rdmaptest.Persisting{Mem: make([]byte, 128)}
			reg, err := b.snd.Table.RegisterMemory(mem, region.Options{Access: access})
			noErr(t, err)
			_, sink := a.register(t, 128, region.ReadSink)
			var d rdmaptest.Done
			wr := tt.wr
			wr.STag, wr.Done = reg.STag(), &d
			if wr.Op == verbs.OpReadRequest {
				wr.Sink = sink.STag()
			}
			a.post(wr)
			exchange(a, b)
			allowed := access&tt.need == tt.need
			if allowed != (b.err == nil) || allowed != (d.Err == nil) || d.N != 1 {
				t.Fatalf("%s with %v: %v, %+v", tt.name, access, b.err, d)
			}
			if pe, _ := errors.AsType[*verbs.ProtocolError](b.err); !allowed && pe.Code != (verbs.TermCode{Layer: 0, EType: 1, Code: 2}) {
				t.Fatalf("%s with %v: %v", tt.name, access, b.err)
			}
			stored, persisted := !bytes.Equal(mem.Mem, make([]byte, 128)), mem.Calls == 1
			if stored != (allowed && tt.stores) || persisted != (allowed && wr.Len > 0 && wr.Flags&verbs.FlushPersistent != 0) {
				t.Fatalf("%s with %v: stored %v, persisted %v", tt.name, access, stored, persisted)
			}
			noErr(t, reg.Invalidate(t.Context()))
		}
	}
}

// TestGuessing: peers that may compare but not read have 16 wrong guesses for one memory, on all streams and in all
// domains of their principal together. After that even a right one is refused to it, and to nobody else. Peers that may
// read too need not guess (ADVERSARY 26).
func TestGuessing(t *testing.T) { synctest.Test(t, testGuessing) }

func testGuessing(t *testing.T) {
	mem := &rdmaptest.Persisting{Mem: make([]byte, 64)}
	who := "192.0.2.1"
	verify := func(access region.Access, hash []byte) verbs.TermCode {
		a, b := newEngine(engineConfig{ord: 1, ext: verbs.ExtCommit}), newEngine(engineConfig{ird: 1, ext: verbs.ExtCommit})
		b.snd.Table.SetPrincipal(who)
		reg, _ := b.snd.Table.RegisterMemory(mem, region.Options{Access: access})
		defer reg.Invalidate(t.Context())
		a.post(verbs.WR{Op: verbs.OpVerifyRequest, STag: reg.STag(), Len: 64, Body: hash})
		exchange(a, b)
		if pe, ok := errors.AsType[*verbs.ProtocolError](b.err); ok {
			return pe.Code
		}
		return verbs.TermCode{}
	}
	held, _ := region.NewTable().RegisterMemory(mem, region.Options{}) // the memory stays in use
	defer held.Invalidate(t.Context())
	good, bad := rdmaptest.Castagnoli(mem.Mem), make([]byte, 4)
	for range 20 {
		if c := verify(region.Verify|region.RemoteRead, bad); c != engine.Violations[engine.VioMismatch].Code {
			t.Fatal(c)
		}
	}
	for i := range 16 {
		if c := verify(region.Verify, good); c != (verbs.TermCode{}) {
			t.Fatalf("a right guess after %d wrong ones: %v", i, c)
		}
		if c := verify(region.Verify, bad); c != engine.Violations[engine.VioMismatch].Code {
			t.Fatalf("guess %d: %v", i, c)
		}
	}
	for _, hash := range [][]byte{bad, good} {
		if c := verify(region.Verify, hash); c != engine.Violations[engine.VioAccess].Code {
			t.Errorf("a right guess after too many wrong ones: %v", c)
		}
	}
	if c := verify(region.Verify|region.RemoteRead, good); c != (verbs.TermCode{}) {
		t.Error(c)
	}
	for _, who = range []string{"192.0.2.2", ""} {
		if c := verify(region.Verify, good); c != (verbs.TermCode{}) {
			t.Errorf("a right guess of another, %q: %v", who, c)
		}
	}
}
