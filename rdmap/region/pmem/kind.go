package pmem

import "fmt"

// Kind is a way to persist the octets of a file.
type Kind uint8

// The kinds; see the package comment for what each one costs and promises.
const (
	// File: a private shadow in memory, pwrite of exactly the range, fdatasync.
	File Kind = iota
	// Mmap: a shared mapping, msync of the pages that cover the range. Linux.
	Mmap
	// DAX: a mapping of persistent memory with MAP_SYNC, write-back of the cache lines
	// that cover the range. Linux on amd64; Open refuses it where the promise cannot be
	// proved.
	DAX
)

var kindNames = [...]string{File: "file", Mmap: "mmap", DAX: "dax"}

// String returns "file", "mmap" or "dax".
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// ParseKind is the inverse of Kind.String. It returns an error for any other name.
func ParseKind(s string) (Kind, error) {
	for k, name := range kindNames {
		if s == name {
			return Kind(k), nil
		}
	}
	return 0, fmt.Errorf("pmem: %q is no kind of memory: use file, mmap or dax", s)
}
