package engine_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestGuardedMemory: every operation accesses Guarded memory only through its methods. If the memory is
// gone at any access, the stream ends with the Terminate for that, no more of the message is sent, no
// later request is executed, and every STag of the memory is revoked.
func TestGuardedMemory(t *testing.T) {
	const size = 5000 // four segments
	for _, tt := range []struct {
		name    string
		wr      verbs.WR
		touches int
	}{
		{"write", verbs.WR{Op: verbs.OpWrite, Body: rdmaptest.Pattern(size)}, 4},
		{"read", verbs.WR{Op: verbs.OpReadRequest, Len: size}, 4},
		{"short read", verbs.WR{Op: verbs.OpReadRequest, Len: 100}, 1},
		{"atomic", verbs.WR{Op: verbs.OpAtomicRequest, Atomic: &verbs.Atomic{Operand: 1}}, 1},
		{"verify", verbs.WR{Op: verbs.OpVerifyRequest, Len: size}, 1},
		{"atomic write", verbs.WR{Op: verbs.OpAtomicWriteRequest, Body: make([]byte, 8)}, 1},
		{"flush", verbs.WR{Op: verbs.OpFlushRequest, Len: 1, Flags: verbs.FlushPersistent}, 1},
	} {
		for left := range tt.touches + 1 {
			a := newEngine(engineConfig{ord: 9, ext: engine.ExtAll})
			b := newEngine(engineConfig{ird: 9, ext: engine.ExtAll})
			mem := &frail{mem: rdmaptest.Pattern(size), left: left}
			all := rdmaptest.CommitRights | region.Atomic
			reg, _ := b.snd.Table.RegisterMemory(mem, region.Options{Access: all})
			other, _ := b.snd.Table.Domain().RegisterShared(mem, region.Options{Access: all})
			sink, sinkReg := a.register(t, size, region.ReadSink)
			after, afterReg := b.register(t, 8, region.RemoteWrite)
			tt.wr.STag, tt.wr.Sink = reg.STag(), 0
			if tt.wr.Op == verbs.OpReadRequest {
				tt.wr.Sink = sinkReg.STag()
			}
			var d rdmaptest.Done
			tt.wr.Done = &d
			a.post(tt.wr, verbs.WR{Op: verbs.OpAtomicWriteRequest, STag: afterReg.STag(), Body: bytes.Repeat([]byte{1}, 8)})
			exchange(a, b)
			if left == tt.touches {
				if a.err != nil || b.err != nil || after[0] != 1 || mem.touches != left ||
					tt.wr.Op == verbs.OpReadRequest && !bytes.Equal(sink[:tt.wr.Len], mem.mem[:tt.wr.Len]) {
					t.Errorf("%s: %v, %v, %d touches", tt.name, a.err, b.err, mem.touches)
				}
				continue
			}
			pe, _ := errors.AsType[*verbs.ProtocolError](b.err)
			te, _ := errors.AsType[*verbs.TerminateError](a.err)
			if pe == nil || te == nil || pe.Code != (verbs.TermCode{Layer: 0, EType: 2, Code: 7}) || te.Terminate.Code != pe.Code ||
				!errors.Is(b.err, region.ErrRegionLost) || te.Terminate.DDP == nil || te.Terminate.Read != nil {
				t.Errorf("%s, touch %d: %v at the one side, %v at the other", tt.name, left, b.err, a.err)
			}
			if after[0] != 0 || reg.Valid() || other.Valid() || mem.touches != left+1 || d.N != 1 {
				t.Errorf("%s, touch %d: later request: %d; valid: %v %v; %+v", tt.name, left, after[0], reg.Valid(), other.Valid(), d)
			}
		}
	}
}

// must returns v, unless err ends the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		noErr(t, err)
		return v
	}
}

// noErr ends the test if err is an error.
func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// frail is Guarded memory that is gone after a number of accesses.
type frail struct {
	mem     []byte
	touches int
	left    int
}

var _ region.Guarded = (*frail)(nil)

func (m *frail) Bytes() []byte { return m.mem }

func (m *frail) Persist(int, int) error { return m.touch() }

func (m *frail) Close() error { return nil }

func (m *frail) touch() error {
	m.touches++
	if m.left--; m.left < 0 {
		return region.ErrRegionLost
	}
	return nil
}

func (m *frail) Store(off int, p []byte) error {
	err := m.touch()
	if err == nil {
		copy(m.mem[off:], p)
	}
	return err
}

func (m *frail) Load(p []byte, off int) error {
	err := m.touch()
	if err == nil {
		copy(p, m.mem[off:])
	}
	return err
}

func (m *frail) Guard(_, _ int, f func() error) error {
	if err := m.touch(); err != nil {
		return err
	}
	return f()
}
