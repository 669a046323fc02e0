//go:build !386

package rdmaptest

import (
	"testing"

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
