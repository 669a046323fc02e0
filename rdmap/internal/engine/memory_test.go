package engine_test

import (
	"bytes"
	"errors"
	"hash"
	"testing"

	"golang.org/x/crypto/blake2b"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestKeyedHash: the key counts, and so does every octet of the hash: a peer with another key fails,
// and so does one that knows all octets but one.
func TestKeyedHash(t *testing.T) {
	mem := region.Bytes(rdmaptest.Pattern(5000))
	sum := func(key string) []byte {
		h := keyed(t, key).New()
		h.Write(mem)
		return h.Sum(nil)
	}
	guesses := [][]byte{sum("one"), sum("other")}
	for i := range sum("one") {
		guesses = append(guesses, sum("one"))
		guesses[2+i][i] ^= 1
	}
	for i, guess := range guesses {
		a, b := newEngine(engineConfig{ord: 1, ext: verbs.ExtCommit}), newEngine(engineConfig{ird: 1, ext: verbs.ExtCommit})
		reg, _ := b.snd.Table.RegisterMemory(mem, region.Options{Access: region.Verify, Hash: keyed(t, "one")})
		a.post(verbs.WR{Op: verbs.OpVerifyRequest, STag: reg.STag(), Len: 5000, Body: guess})
		exchange(a, b)
		if pe, _ := errors.AsType[*verbs.ProtocolError](b.err); (pe == nil) != (i == 0) || pe != nil && pe.Code != engine.Violations[engine.VioMismatch].Code {
			t.Errorf("guess %d: %v", i, b.err)
		}
	}
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
			mem := &rdmaptest.Frail{Mem: rdmaptest.Pattern(size), Left: left}
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
				if a.err != nil || b.err != nil || after[0] != 1 || mem.Touches != left ||
					tt.wr.Op == verbs.OpReadRequest && !bytes.Equal(sink[:tt.wr.Len], mem.Mem[:tt.wr.Len]) {
					t.Errorf("%s: %v, %v, %d touches", tt.name, a.err, b.err, mem.Touches)
				}
				continue
			}
			pe, _ := errors.AsType[*verbs.ProtocolError](b.err)
			te, _ := errors.AsType[*verbs.TerminateError](a.err)
			if pe == nil || te == nil || pe.Code != (verbs.TermCode{Layer: 0, EType: 2, Code: 7}) || te.Terminate.Code != pe.Code ||
				!errors.Is(b.err, region.ErrRegionLost) || te.Terminate.DDP == nil || te.Terminate.Read != nil {
				t.Errorf("%s, touch %d: %v at the one side, %v at the other", tt.name, left, b.err, a.err)
			}
			if after[0] != 0 || reg.Valid() || other.Valid() || mem.Touches != left+1 || d.N != 1 {
				t.Errorf("%s, touch %d: later request: %d; valid: %v %v; %+v", tt.name, left, after[0], reg.Valid(), other.Valid(), d)
			}
		}
	}
}

// keyed returns BLAKE2b-256 with a key (RFC 7693).
func keyed(t *testing.T, key string) *region.Hash {
	t.Helper()
	if _, err := blake2b.New256([]byte(key)); err != nil {
		t.Fatal(err)
	}
	return &region.Hash{Size: blake2b.Size256, New: func() hash.Hash { h, _ := blake2b.New256([]byte(key)); return h }}
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
