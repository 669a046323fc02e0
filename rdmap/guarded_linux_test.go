package rdmap_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// openFile returns persistent memory in a new file.
func openFile(t *testing.T, kind pmem.Kind, size int) *pmem.Memory {
	t.Helper()
	path := filepath.Join(t.TempDir(), "memory")
	noErr(t, pmem.Create(path, size, nil))
	m := must(pmem.Open(kind, path, nil))(t)
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

const fileSize = 1 << 18

// TestTruncated: if somebody truncates a mapped file, the stream that accesses it ends with a Terminate,
// and only that one. The STags of other streams are invalid, even in other domains (ADVERSARY 25). That every operation meets
// the end so is said by the engine's TestGuardedMemory.
func TestTruncated(t *testing.T) {
	t.Parallel()
	ops := map[string]func(t *testing.T, x *rdmap.Conn, s region.STag) error{
		"write": func(t *testing.T, x *rdmap.Conn, s region.STag) error {
			// Few octets, so that none are left unread: a reset can destroy the Terminate.
			if err := x.Write(t.Context(), make([]byte, 5000), s, fileSize-5000); err != nil {
				return err
			}
			return x.Read(t.Context(), make([]byte, 1), s, 0)
		},
		"read": func(t *testing.T, x *rdmap.Conn, s region.STag) error {
			return x.Read(t.Context(), make([]byte, fileSize), s, 0)
		},
	}
	for name, op := range ops {
		t.Run(name, func(t *testing.T) {
			a, b := TcpPair(t)
			cfg := &rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.ExtCommit}}
			x, y := rdmaptest.Connect(t, a, b, cfg, cfg)
			m := openFile(t, pmem.Mmap, fileSize)
			reg, _ := y.Table().RegisterMemory(m, region.Options{Access: rdmaptest.CommitRights})
			elsewhere, _ := region.NewTable().RegisterMemory(m, region.Options{Access: rdmaptest.CommitRights})
			go y.Serve()
			noErr(t, x.Read(t.Context(), make([]byte, 1), reg.STag(), fileSize-1))
			noErr(t, os.Truncate(m.Path(), 4096))
			err := op(t, x, reg.STag())
			te, ok := errors.AsType[*verbs.TerminateError](err)
			if !ok || te.Terminate.Code != (verbs.TermCode{Layer: 0, EType: 2, Code: 7}) {
				t.Errorf("got %v, want Terminate 0x0/0x2/0x07", err)
			}
			<-y.Done()
			if !errors.Is(y.Err(), region.ErrRegionLost) || reg.Valid() || elsewhere.Valid() {
				t.Errorf("%v; valid: %v, %v", y.Err(), reg.Valid(), elsewhere.Valid())
			}
		})
	}
}
