//go:build !race

// Package racy copies memory that peers may read and write at once. The protocol allows them that, and leaves
// the content undefined; nothing in this process depends on it. In builds with the race detector these
// accesses are hidden from it, because its report would be about the peers. In all others Copy is copy.
package racy

// Enabled says that the race detector is there.
const Enabled = false

// Copy copies len(src) octets to dst, which must have as many.
func Copy(dst, src []byte) { copy(dst, src) }

// Read returns *p.
func Read(p *bool) bool { return *p }

// Set makes *p true.
func Set(p *bool) { *p = true }
