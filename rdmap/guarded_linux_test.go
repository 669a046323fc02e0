package rdmap

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
)

// openFile returns persistent memory on a new file.
func openFile(t *testing.T, kind pmem.Kind, size int) *pmem.Memory {
	t.Helper()
	path := filepath.Join(t.TempDir(), "memory")
	if err := pmem.Create(path, size, nil); err != nil {
		t.Fatal(err)
	}
	m, err := pmem.Open(kind, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

const fileSize = 1 << 18

// TestPersistent: write, flush, verify and read back over files, and the file holds it.
func TestPersistent(t *testing.T) {
	for _, kind := range []pmem.Kind{pmem.File, pmem.Mmap} {
		t.Run(kind.String(), func(t *testing.T) {
			onWires(t, func(t *testing.T, a, b net.Conn) {
				cfg := &Config{Extensions: ExtCommit}
				x, y := connect(t, a, b, cfg, cfg)
				m := openFile(t, kind, fileSize)
				reg, _ := y.Table().RegisterMemory(m, region.Options{Access: commitRights})
				defer reg.Invalidate(t.Context())
				go y.Serve()
				data, sink, ctx, s := pattern(100_001), make([]byte, 100_001), t.Context(), reg.STag()
				_, err := x.Verify(ctx, s, 0, 64, crc(make([]byte, 64)))
				if err := errors.Join(err, x.Write(ctx, data, s, 777), x.Flush(ctx, s, 777, 100_001, FlushPersistent),
					x.Read(ctx, sink, s, 777)); err != nil {
					t.Fatal(err)
				}
				file, err := os.ReadFile(m.Path())
				if err != nil || !bytes.Equal(file[777:][:100_001], data) || !bytes.Equal(sink, data) {
					t.Fatal("not what was written", err)
				}
			})
		})
	}
}

// TestTruncated: a file that somebody truncates under the mapping ends the stream that
// touches it with a Terminate, and no more than that; the STags of other streams, in
// other domains too, are invalid (D10, ADVERSARY 25).
func TestTruncated(t *testing.T) {
	ops := map[string]func(t *testing.T, x *Conn, s region.STag) error{
		"write": func(t *testing.T, x *Conn, s region.STag) error {
			if err := x.Write(t.Context(), make([]byte, fileSize), s, 0); err != nil {
				return err
			}
			return x.Read(t.Context(), make([]byte, 1), s, 0)
		},
		"read": func(t *testing.T, x *Conn, s region.STag) error {
			return x.Read(t.Context(), make([]byte, fileSize), s, 0)
		},
		"verify": func(t *testing.T, x *Conn, s region.STag) error {
			_, err := x.Verify(t.Context(), s, 0, fileSize, nil)
			return err
		},
		"atomic write": func(t *testing.T, x *Conn, s region.STag) error {
			return x.AtomicWrite(t.Context(), s, fileSize-8, [8]byte{})
		},
		"flush": func(t *testing.T, x *Conn, s region.STag) error {
			return x.Flush(t.Context(), s, 0, 1, FlushPersistent)
		},
	}
	for name, op := range ops {
		t.Run(name, func(t *testing.T) {
			onWires(t, func(t *testing.T, a, b net.Conn) {
				cfg := &Config{Extensions: ExtCommit}
				x, y := connect(t, a, b, cfg, cfg)
				m := openFile(t, pmem.Mmap, fileSize)
				reg, _ := y.Table().RegisterMemory(m, region.Options{Access: commitRights})
				elsewhere, _ := region.NewTable().RegisterMemory(m, region.Options{Access: commitRights})
				go y.Serve()
				if err := x.Read(t.Context(), make([]byte, 1), reg.STag(), fileSize-1); err != nil {
					t.Fatal(err)
				}
				if err := os.Truncate(m.Path(), 4096); err != nil {
					t.Fatal(err)
				}
				err := op(t, x, reg.STag())
				te, ok := errors.AsType[*TerminateError](err)
				if !ok || te.Terminate.Code != (TermCode{0, 2, 7}) {
					t.Errorf("got %v, want Terminate 0x0/0x2/0x07", err)
				}
				<-y.Done()
				if !errors.Is(y.Err(), region.ErrRegionLost) || reg.Valid() || elsewhere.Valid() {
					t.Errorf("%v; valid: %v, %v", y.Err(), reg.Valid(), elsewhere.Valid())
				}
			})
		})
	}
}
