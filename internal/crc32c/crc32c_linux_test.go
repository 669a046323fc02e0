package crc32c

import (
	"os"
	"syscall"
	"testing"
)

// Nothing before or after the octets is read: they lie between two pages without access.
func TestUpdateStays(t *testing.T) {
	page := os.Getpagesize()
	b, err := syscall.Mmap(-1, 0, 3*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Munmap(b) }()
	for _, guard := range [][]byte{b[:page], b[2*page:]} {
		if err := syscall.Mprotect(guard, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	p := b[page : 2*page]
	copy(p, octets(2, page))
	for n := range page + 1 {
		check(t, 7, p[:n])
		check(t, 7, p[page-n:])
		checkFour(t, p[:n], n/4, n-3*(n/4))
		checkFour(t, p[page-n:], n/4, n-3*(n/4))
	}
}
