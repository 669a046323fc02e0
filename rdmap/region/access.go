package region

import (
	"fmt"
	"strings"
)

// STag is a steering tag: the number by which a peer names a region.
type STag uint32

// Index returns the high 24 bits, the random part.
func (s STag) Index() uint32 { return uint32(s) >> 8 }

// Key returns the low 8 bits, which change with every registration.
func (s STag) Key() uint8 { return uint8(s) }

// String returns the tag as 8 hexadecimal digits.
func (s STag) String() string { return fmt.Sprintf("%08x", uint32(s)) }

// Access is a set of rights. No right includes another.
type Access uint16

// The rights. RFC 5040 Section 8.1 requires remote read and remote write. Choice: the others are
// separate rights, since no document names rights for them.
const (
	// RemoteRead: the peer may read by RDMA Read.
	RemoteRead Access = 1 << iota
	// RemoteWrite: the peer may place octets by RDMA Write.
	RemoteWrite
	// Atomic: the peer may execute atomic operations.
	Atomic
	// FlushVisible: the peer may flush for global visibility.
	FlushVisible
	// FlushPersistent: the peer may flush to persistence.
	FlushPersistent
	// Verify: the peer may have a hash of the octets compared with its own, of those on the medium if the
	// Memory is a ReadBacker.
	Verify
	// RemoteInvalidate: the peer may invalidate the STag by Send with Invalidate.
	RemoteInvalidate
	// ReadSink: the region may be the sink of our own RDMA Reads. The peer may only respond to
	// them.
	ReadSink
	// Scratch: while a peer may write, nobody depends on octets that it has not placed, and if the connection fails, on none.
	// So what comes may be read to where it will belong before it is checked. Octets that no peer has placed may become 0.
	// The registration belongs to one Table.
	Scratch

	accessAll = Scratch<<1 - 1
)

var accessNames = [...]string{
	"remote-read", "remote-write", "atomic", "flush-visible",
	"flush-persistent", "verify", "remote-invalidate", "read-sink", "scratch",
}

// String returns the names of the rights joined by "|", or "none".
func (a Access) String() string {
	var s []string
	for i, name := range accessNames {
		if a&(1<<i) != 0 {
			s = append(s, name)
		}
	}
	if rest := a &^ accessAll; rest != 0 {
		s = append(s, fmt.Sprintf("Access(%#x)", uint16(rest)))
	}
	if s == nil {
		return "none"
	}
	return strings.Join(s, "|")
}
