package rdmap_test

import (
	"bytes"
	"errors"
	"net"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/internal/conntest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestOneMemoryManySTags: the same octets under several STags, each with its own rights, base and
// hash. All reach the same memory, and none gives its rights to another (ADVERSARY 28).
func TestOneMemoryManySTags(t *testing.T) {
	conntest.OnWires(t, func(t *testing.T, a, b net.Conn) {
		cfg := &rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.Ext7306 | verbs.ExtSwap | verbs.ExtCommit}}
		x, y := conntest.Connect(t, a, b, cfg, cfg)
		mem := &conntest.Persisting{Mem: make([]byte, 256)}
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
		hashes := map[*region.Hash]region.STag{region.CRC32C: 0, region.SHA256: 0, conntest.Keyed(t, "one"): 0, conntest.Keyed(t, "other"): 0}
		for h := range hashes {
			hashes[h] = register(region.Options{Access: read, Hash: h})
		}
		bare := register(region.Options{Access: read})
		go y.Serve()
		ctx, data := t.Context(), conntest.Pattern(200)
		_, err := x.FetchAdd(ctx, add, 64+248, 5, 0)
		if err := errors.Join(err, x.Write(ctx, data, put, 1<<40+3), x.Flush(ctx, flush, 3, 200, verbs.FlushPersistent)); err != nil {
			t.Fatal(err)
		}
		want := bytes.Clone(mem.Mem)
		if mem.Calls != 1 || !bytes.Equal(want[3:203], data) || bytes.Equal(want[248:], make([]byte, 8)) {
			t.Fatalf("%d persisted; %x", mem.Calls, want)
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
		if sum, err := x.Verify(ctx, bare, 0, 256, nil); err != nil || !bytes.Equal(sum, conntest.Castagnoli(want)) {
			t.Fatalf("no hash named: %x, %v", sum, err)
		}
		err = x.Read(ctx, make([]byte, 1), put, 1<<40)
		if te, ok := errors.AsType[*verbs.TerminateError](err); !ok || te.Terminate.Code != (verbs.TermCode{Layer: 0, EType: 1, Code: 2}) {
			t.Errorf("read with the STag to write: %v", err)
		}
	})
}
