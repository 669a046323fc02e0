//go:build !386

package rdmaptest

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/region"
	"golang.org/x/sys/unix"
)

// Vast returns n octets of address space that nobody can access.
func Vast(t testing.TB, n int) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, n, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		t.Skip("no address space:", err)
	}
	t.Cleanup(func() { _ = unix.Munmap(b) })
	return b
}

// VastMemory registers 2^32-1 octets that count what is done to them.
func VastMemory(t testing.TB, tab *region.Table, access region.Access) (*Counting, region.Region) {
	t.Helper()
	m := &Counting{Mem: Vast(t, engine.MaxMessage)}
	reg, err := tab.RegisterMemory(m, region.Options{Access: access})
	if err != nil {
		t.Fatal(err)
	}
	return m, reg
}
