package rdmap_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestVerifyMedium: a Verify succeeds only if the file holds the octets, and without a hash returns that of what the
// file holds, however few they are, whatever the copy in memory says. A file that was cut, or cannot be read, is refused.
//
// spec: rdmap 7.5 medium
func TestVerifyMedium(t *testing.T) {
	const size, off, n = 1 << 18, 777, 100_000
	data := pattern(0, n)
	behind := func(at int64, p ...byte) func(string, *pmemtest.Faults) error {
		return func(path string, _ *pmemtest.Faults) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt(p, at)
			return errors.Join(err, f.Close())
		}
	}
	sum := func(p []byte) []byte {
		return binary.BigEndian.AppendUint32(nil, crc32.Checksum(p, crc32.MakeTable(crc32.Castagnoli)))
	}
	for name, tt := range map[string]struct {
		change  func(path string, f *pmemtest.Faults) error
		changed func(p []byte) // what it makes of data; nil: the medium cannot be read
	}{
		"unchanged":   {func(string, *pmemtest.Faults) error { return nil }, func([]byte) {}},
		"one octet":   {behind(off+50_000, 0xee), func(p []byte) { p[50_000] = 0xee }},
		"first octet": {behind(off, 0xee), func(p []byte) { p[0] = 0xee }},
		"beside it":   {behind(off-1, 0xee), func([]byte) {}},
		"truncated":   {func(path string, _ *pmemtest.Faults) error { return os.Truncate(path, size/2) }, nil},
		"truncated and made as long as before": {func(path string, _ *pmemtest.Faults) error {
			return errors.Join(os.Truncate(path, off+10), os.Truncate(path, size))
		}, func(p []byte) { clear(p[10:]) }},
		"removed":    {func(path string, _ *pmemtest.Faults) error { return os.Remove(path) }, nil},
		"bad sector": {func(_ string, f *pmemtest.Faults) error { f.Fail(pmem.OpRead, syscall.EIO); return nil }, nil},
	} {
		for _, kind := range []pmem.Kind{pmem.File, pmem.Mmap} {
			if kind == pmem.Mmap && name == "truncated and made as long as before" {
				continue // its octets are those of the file, whoever looks
			}
			for _, much := range []uint32{n, 64} {
				t.Run(kind.String()+"/"+name, func(t *testing.T) {
					f := pmemtest.NewFaults()
					path := filepath.Join(t.TempDir(), "memory")
					noErr(t, pmem.Create(path, size, nil))
					m := must(pmem.Open(kind, path, f.Hook()))(t)
					defer m.Close()
					if err := m.Verifiable(); err != nil {
						t.Skip(err)
					}
					a, b := wire(t, true)
					x, y := rdmap.Client(a, &rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.ExtCommit}}), rdmap.Server(b, &rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.ExtCommit}})
					served := make(chan error, 1)
					go func() { served <- errors.Join(y.Handshake(t.Context()), y.Serve()) }()
					defer func() { x.Abort(nil); <-served }()
					noErr(t, x.Handshake(t.Context()))
					reg, err := y.Table().RegisterMemory(m, region.Options{
						Access: region.RemoteRead | region.RemoteWrite | region.FlushPersistent | region.Verify,
					})
					noErr(t, err)
					s := reg.STag()
					_, err = x.Verify(t.Context(), s, 0, 64, sum(make([]byte, 64)))
					noErr(t, errors.Join(err, x.Write(t.Context(), data, s, off), x.Flush(t.Context(), s, off, n, verbs.FlushPersistent)))
					if _, err := x.Verify(t.Context(), s, off, much, sum(data[:much])); err != nil {
						t.Fatal(err)
					}
					noErr(t, tt.change(path, f))
					if tt.changed != nil {
						now := append([]byte(nil), data...)
						tt.changed(now)
						if got, err := x.Verify(t.Context(), s, off, much, nil); err != nil || string(got) != string(sum(now[:much])) {
							t.Errorf("%x, %v; want %x", got, err, sum(now[:much]))
						}
						if string(now[:much]) == string(data[:much]) {
							return
						}
					}
					_, err = x.Verify(t.Context(), s, off, much, sum(data[:much]))
					if te := new(verbs.TerminateError); !errors.As(err, &te) {
						t.Errorf("compared with what was written: %v", err)
					}
				})
			}
		}
	}
}
