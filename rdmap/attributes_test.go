package rdmap

import (
	"bytes"
	"errors"
	"hash"
	"net"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"golang.org/x/crypto/blake2b"
)

// keyed returns BLAKE2b-256 with a key (RFC 7693).
func keyed(t *testing.T, key string) *region.Hash {
	t.Helper()
	if _, err := blake2b.New256([]byte(key)); err != nil {
		t.Fatal(err)
	}
	return &region.Hash{Size: blake2b.Size256, New: func() hash.Hash { h, _ := blake2b.New256([]byte(key)); return h }}
}

// TestOneMemoryManySTags: the same octets under several STags, each with its own rights, base and
// hash. All reach the same memory, and none gives its rights to another (ADVERSARY 28).
func TestOneMemoryManySTags(t *testing.T) {
	onWires(t, func(t *testing.T, a, b net.Conn) {
		cfg := &Config{Extensions: engine.ExtAll}
		x, y := connect(t, a, b, cfg, cfg)
		mem := &persisting{mem: make([]byte, 256)}
		register := func(o region.Options) region.STag {
			reg, err := y.Table().RegisterMemory(mem, o)
			if err != nil {
				t.Fatal(err)
			}
			return reg.STag()
		}
		put := register(region.Options{Access: region.RemoteWrite, Base: 1 << 40})
		flush := register(region.Options{Access: region.FlushPersistent})
		add := register(region.Options{Access: region.Atomic, Base: 64})
		read := region.RemoteRead | region.Verify
		hashes := map[*region.Hash]region.STag{region.CRC32C: 0, region.SHA256: 0, keyed(t, "one"): 0, keyed(t, "other"): 0}
		for h := range hashes {
			hashes[h] = register(region.Options{Access: read, Hash: h})
		}
		bare := register(region.Options{Access: read})
		go y.Serve()
		ctx, data := t.Context(), pattern(200)
		_, err := x.FetchAdd(ctx, add, 64+248, 5, 0)
		if err := errors.Join(err, x.Write(ctx, data, put, 1<<40+3), x.Flush(ctx, flush, 3, 200, verbs.FlushPersistent)); err != nil {
			t.Fatal(err)
		}
		want := bytes.Clone(mem.mem)
		if mem.calls != 1 || !bytes.Equal(want[3:203], data) || bytes.Equal(want[248:], make([]byte, 8)) {
			t.Fatalf("%d persisted; %x", mem.calls, want)
		}
		seen := map[string]bool{}
		for h, stag := range hashes {
			s := h.New()
			s.Write(want)
			sum, err := x.Verify(ctx, stag, 0, 256, s.Sum(nil))
			if err != nil || !bytes.Equal(sum, s.Sum(nil)) || seen[string(sum)] {
				t.Fatalf("hash of %d octets: %x, %v", h.Size, sum, err)
			}
			seen[string(sum)] = true
		}
		if sum, err := x.Verify(ctx, bare, 0, 256, nil); err != nil || !bytes.Equal(sum, crc(want)) {
			t.Fatalf("no hash named: %x, %v", sum, err)
		}
		err = x.Read(ctx, make([]byte, 1), put, 1<<40)
		if te, ok := errors.AsType[*verbs.TerminateError](err); !ok || te.Terminate.Code != (verbs.TermCode{Layer: 0, EType: 1, Code: 2}) {
			t.Errorf("read with the STag to write: %v", err)
		}
	})
}

// TestKeyedHash: the key counts, and so does every octet of the hash: a peer with another key fails,
// and so does one that knows all octets but one.
func TestKeyedHash(t *testing.T) {
	mem := region.Bytes(pattern(5000))
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

// writing records what it is asked to write back.
type writing struct {
	persisting
	asked []region.Range
}

var _ region.WriteBacker = (*writing)(nil)

func (m *writing) WriteBack(off, n int) { m.asked = append(m.asked, region.Range{Off: off, N: n}) }

// TestWriteThrough: with the hint, exactly what peers store is written back, after it has been stored.
// What they store by another STag of the same memory, without the hint, is not.
func TestWriteThrough(t *testing.T) {
	for _, hint := range []bool{true, false} {
		a, b := newEngine(engineConfig{ord: 9, ext: engine.ExtAll}), newEngine(engineConfig{ird: 9, ext: engine.ExtAll})
		mem := &writing{persisting: persisting{mem: make([]byte, 4096)}}
		all := commitRights | region.Atomic
		reg, _ := b.snd.Table.RegisterMemory(mem, region.Options{Access: all, Base: 1000, WriteThrough: hint})
		_, _ = b.snd.Table.RegisterMemory(mem, region.Options{Access: all, WriteThrough: true})
		_, sink := a.register(t, 4096, region.ReadSink)
		s := reg.STag()
		a.post(
			verbs.WR{Op: verbs.OpWrite, STag: s, TO: 1100, Body: pattern(2000)},
			verbs.WR{Op: verbs.OpWrite, STag: s, TO: 1000},
			verbs.WR{Op: verbs.OpAtomicWriteRequest, STag: s, TO: 1008, Body: make([]byte, 8)},
			verbs.WR{Op: verbs.OpAtomicRequest, STag: s, TO: 1016, Atomic: &verbs.Atomic{Operand: 1}},
			verbs.WR{Op: verbs.OpReadRequest, STag: s, TO: 1000, Len: 4096, Sink: sink.STag()},
			verbs.WR{Op: verbs.OpVerifyRequest, STag: s, TO: 1000, Len: 4096},
			verbs.WR{Op: verbs.OpFlushRequest, STag: s, TO: 1000, Len: 4096, Flags: verbs.FlushPersistent},
		)
		exchange(a, b)
		var want []region.Range
		if hint {
			want = []region.Range{{Off: 100, N: 1428}, {Off: 1528, N: 572}, {Off: 8, N: 8}, {Off: 16, N: 8}}
		}
		if b.err != nil || !slices.Equal(mem.asked, want) || mem.calls != 1 {
			t.Errorf("hint %v: %v, asked for %v, want %v", hint, b.err, mem.asked, want)
		}
	}
}
