package rdmap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// frail is Guarded memory that is gone after a number of accesses.
type frail struct {
	mem     []byte
	touches int
	left    int
}

var _ region.Guarded = (*frail)(nil)

func (m *frail) Bytes() []byte          { return m.mem }
func (m *frail) Persist(int, int) error { return m.touch() }
func (m *frail) Close() error           { return nil }

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
		{"write", verbs.WR{Op: verbs.OpWrite, Body: pattern(size)}, 4},
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
			mem := &frail{mem: pattern(size), left: left}
			all := commitRights | region.Atomic
			reg, _ := b.snd.Table.RegisterMemory(mem, region.Options{Access: all})
			other, _ := b.snd.Table.Domain().RegisterShared(mem, region.Options{Access: all})
			sink, sinkReg := a.register(t, size, region.ReadSink)
			after, afterReg := b.register(t, 8, region.RemoteWrite)
			tt.wr.STag, tt.wr.Sink = reg.STag(), 0
			if tt.wr.Op == verbs.OpReadRequest {
				tt.wr.Sink = sinkReg.STag()
			}
			var d done
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
			if after[0] != 0 || reg.Valid() || other.Valid() || mem.touches != left+1 || d.n != 1 {
				t.Errorf("%s, touch %d: later request: %d; valid: %v %v; %+v", tt.name, left, after[0], reg.Valid(), other.Valid(), d)
			}
		}
	}
}

// TestGuardedSink: a Read Response into Guarded memory.
func TestGuardedSink(t *testing.T) {
	for left := range 5 {
		a, b := newEngine(engineConfig{ord: 1}), newEngine(engineConfig{ird: 1})
		src, reg := b.register(t, 5000, region.RemoteRead)
		copy(src, pattern(5000))
		mem := &frail{mem: make([]byte, 5000), left: left}
		sink, _ := a.snd.Table.RegisterMemory(mem, region.Options{Access: region.ReadSink})
		a.post(verbs.WR{Op: verbs.OpReadRequest, STag: reg.STag(), Sink: sink.STag(), Len: 5000})
		exchange(a, b)
		if left == 4 {
			if a.err != nil || a.read != 1 || !bytes.Equal(mem.mem, src) {
				t.Error(a.err)
			}
			continue
		}
		if pe, ok := errors.AsType[*verbs.ProtocolError](a.err); !ok || pe.Code != (verbs.TermCode{Layer: 0, EType: 2, Code: 7}) || sink.Valid() {
			t.Errorf("touch %d: %v, sink valid: %v", left, a.err, sink.Valid())
		}
	}
}

// TestSim: the crash model knows what peers place, by whatever operation, and what they flush survives
// every crash.
func TestSim(t *testing.T) {
	onWires(t, func(t *testing.T, a, b net.Conn) {
		cfg := &Config{Extensions: verbs.Ext7306 | verbs.ExtCommit}
		x, y := connect(t, a, b, cfg, cfg)
		sim := pmem.NewSim(1024, nil)
		reg, err := y.Table().RegisterMemory(sim, region.Options{Access: commitRights | region.Atomic})
		if err != nil {
			t.Fatal(err)
		}
		go y.Serve()
		ctx, s, data := t.Context(), reg.STag(), pattern(200)
		_, e1 := x.FetchAdd(ctx, s, 512, 7, 0)
		e2 := x.AtomicWrite(ctx, s, 640, [8]byte{1, 2, 3, 4, 5, 6, 7, 8})
		if err := errors.Join(e1, e2, x.Write(ctx, data, s, 10), x.Flush(ctx, s, 10, 60, verbs.FlushPersistent)); err != nil {
			t.Fatal(err)
		}
		shot := sim.Told()
		if got := shot.Dirty(); len(got) != 5 { // lines 1 to 3 of the data, and two words
			t.Errorf("dirty lines %v", got)
		}
		if got := shot.Durable(); !bytes.Equal(got[10:70], data[:60]) || !bytes.Equal(got[70:], make([]byte, 954)) {
			t.Errorf("durable: %x", got)
		}
		torn, whole := 0, 0
		for im := range shot.All(pmem.Line) {
			if !bytes.Equal(im.Octets()[10:70], data[:60]) {
				t.Fatal("flushed octets lost by a crash")
			}
			if bytes.Equal(im.Octets()[10:210], data) && im.Octets()[640] == 1 && binary.NativeEndian.Uint64(im.Octets()[512:]) == 7 {
				whole++
			} else {
				torn++
			}
		}
		if whole != 1 || torn != 31 {
			t.Errorf("%d images have all octets, %d do not", whole, torn)
		}
		sink := make([]byte, 200)
		if err := x.Read(ctx, sink, s, 10); err != nil || !bytes.Equal(sink, data) {
			t.Error("read", err)
		}
	})
}
