package rdmap

import (
	"bytes"
	"errors"
	"hash"
	"net"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
	"golang.org/x/crypto/blake2b"
)

// keyed returns BLAKE2b-256 with a key, RFC 7693.
func keyed(t *testing.T, key string) *region.Hash {
	t.Helper()
	if _, err := blake2b.New256([]byte(key)); err != nil {
		t.Fatal(err)
	}
	return &region.Hash{Size: blake2b.Size256, New: func() hash.Hash { h, _ := blake2b.New256([]byte(key)); return h }}
}

// TestOneMemoryManySTags: the same octets under several STags, each with rights, base
// and hash of its own; all of them reach the same memory, and none lends the other
// its rights (D10, ADVERSARY 28).
func TestOneMemoryManySTags(t *testing.T) {
	onWires(t, func(t *testing.T, a, b net.Conn) {
		cfg := &Config{Extensions: extAll}
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
		if err := errors.Join(err, x.Write(ctx, data, put, 1<<40+3), x.Flush(ctx, flush, 3, 200, FlushPersistent)); err != nil {
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
		if te, ok := errors.AsType[*TerminateError](err); !ok || te.Terminate.Code != (TermCode{0, 1, 2}) {
			t.Errorf("read with the STag to write: %v", err)
		}
	})
}

// TestKeyedHash: the key is what counts: a peer that has another one fails.
func TestKeyedHash(t *testing.T) {
	for key, ok := range map[string]bool{"one": true, "other": false} {
		a, b := newEngine(engineConfig{ord: 1, ext: ExtCommit}), newEngine(engineConfig{ird: 1, ext: ExtCommit})
		mem := region.Bytes(pattern(5000))
		reg, _ := b.snd.table.RegisterMemory(mem, region.Options{Access: region.Verify, Hash: keyed(t, "one")})
		h := keyed(t, key).New()
		h.Write(mem)
		a.post(WR{Op: OpVerifyRequest, STag: reg.STag(), Len: 5000, Body: h.Sum(nil)})
		exchange(a, b)
		if pe, _ := errors.AsType[*ProtocolError](b.err); (pe == nil) != ok || pe != nil && pe.Code != violations[vioMismatch].code {
			t.Errorf("key %q: %v", key, b.err)
		}
	}
}
