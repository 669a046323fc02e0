package rdmap

import (
	"bytes"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
)

// TestRights tries every operation on every set of rights: an operation succeeds
// exactly when its own right is there, and memory changes only then.
func TestRights(t *testing.T) {
	ops := []struct {
		name string
		need region.Access
		code TermCode
		run  func(t *testing.T, e *engine, stag region.STag)
	}{
		{"write", region.RemoteWrite, TermCode{1, 1, 0}, func(t *testing.T, e *engine, stag region.STag) {
			e.input(fpduOf(writeOf(t, stag, 0)))
		}},
		{"read", region.RemoteRead, TermCode{0, 1, 2}, func(t *testing.T, e *engine, stag region.STag) {
			e.input(fpduOf(readOf(t, stag, 0, 16)))
			e.output()
		}},
		{"invalidate", region.RemoteInvalidate, TermCode{0, 1, 9}, func(t *testing.T, e *engine, stag region.STag) {
			u := patch(t, goldSendInv, 13, 1)
			u[2], u[3], u[4], u[5] = byte(stag>>24), byte(stag>>16), byte(stag>>8), byte(stag)
			e.input(fpduOf(u))
		}},
		{"response", region.ReadSink, TermCode{1, 1, 0}, func(t *testing.T, e *engine, stag region.STag) {
			e.post(WR{Op: OpReadRequest, Sink: stag, Len: 16})
			e.output()
			e.input(fpduOf(responseOf(t, stag, 0)))
		}},
	}
	for a := range region.ReadSink << 1 {
		for _, op := range ops {
			e := newEngine(engineConfig{recvs: 1, ird: 1, ord: 1})
			mem, reg := e.register(t, 16, a)
			op.run(t, e, reg.STag())
			allowed := a&op.need != 0
			pe, _ := e.err.(*ProtocolError)
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

// TestRevoked: after invalidation every use of the STag fails, and so does the old
// STag after the memory has been registered again.
func TestRevoked(t *testing.T) {
	for _, again := range []bool{false, true} {
		e := newEngine(engineConfig{})
		mem, reg := e.register(t, 16, allRights)
		if err := reg.Invalidate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if again {
			if _, err := e.snd.table.Register(mem, allRights); err != nil {
				t.Fatal(err)
			}
		}
		e.input(fpduOf(writeOf(t, reg.STag(), 0)))
		if pe, ok := e.err.(*ProtocolError); !ok || pe.Code != (TermCode{1, 1, 0}) {
			t.Fatalf("again=%v: %v", again, e.err)
		}
		if !bytes.Equal(mem, make([]byte, 16)) {
			t.Fatal("memory changed")
		}
	}
}

// TestBounds walks offsets and lengths around the edges of a region against the
// obvious rule.
func TestBounds(t *testing.T) {
	const size = 24
	tos := []uint64{0, 1, 7, 8, 9, 23, 24, 25, 1 << 32, 1<<63 - 1, 1 << 63, 1<<64 - 16, 1<<64 - 1}
	for _, to := range tos {
		e := newEngine(engineConfig{})
		_, reg := e.register(t, size, allRights)
		e.input(fpduOf(writeOf(t, reg.STag(), to)))
		if want := to <= size-16; (e.err == nil) != want {
			t.Errorf("write of 16 at %#x: %v", to, e.err)
		}
		for _, n := range []uint32{1, 16, 24, 25, 1 << 31, 1<<32 - 1} {
			e := newEngine(engineConfig{ird: 1})
			_, reg := e.register(t, size, allRights)
			e.input(fpduOf(readOf(t, reg.STag(), to, n)))
			e.output()
			if want := to <= size && uint64(n) <= size-to; (e.err == nil) != want {
				t.Errorf("read of %d at %#x: %v", n, to, e.err)
			}
		}
	}
}
