package push

import (
	"crypto/sha256"
	"strings"

	"github.com/stag-rdma/stag/rdmap/region"
)

// Owner is what a server keeps of a secret: its SHA-256. It gives no right.
type Owner [sha256.Size]byte

// ownerOf returns the digest of a secret.
func ownerOf(s *Secret) Owner { return sha256.Sum256(s[:]) }

// Store keeps the logs of a server. Its methods are not called at the same time for the
// same name.
type Store interface {
	// Create makes a log of size octets for owner. Format is called with its memory,
	// zeros; the log exists once Create has returned nil, durably, and not before. What a
	// crash has left of an earlier attempt is in nobody's way.
	Create(name string, size int, owner Owner, format func(region.Memory) error) error
	// Open lends the memory of a log, until it is closed.
	Open(name string) (region.Memory, Owner, error)
	// Names returns the logs there are.
	Names() ([]string, error)
}

const nameOctets = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

// possible says whether a log can have this name. It is safe as the name of a file.
func possible(name string) bool {
	return len(name) > 0 && len(name) <= maxName && name[0] != '.' && strings.Trim(name, nameOctets) == ""
}
