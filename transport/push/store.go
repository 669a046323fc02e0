package push

import (
	"crypto/sha256"
	"strings"

	"github.com/stag-rdma/stag/rdmap/region"
)

// Owner is the SHA-256 of a secret, which the server keeps. It grants no access.
type Owner [sha256.Size]byte

// ownerOf returns the digest of a secret.
func ownerOf(s *Secret) Owner { return sha256.Sum256(s[:]) }

// Origin says for whom a log was made.
type Origin struct {
	Owner Owner
	Host  string // whose share the log takes (a result of peeraddr.Share), "" if unknown: see Limits.ClientLogs
}

// Store keeps the logs of a server. The server never calls two methods at the same time for the
// same name, and Tidy before all others.
type Store interface {
	// Create makes a log of size octets for whom from names. It calls format with the zeroed memory of the
	// log. The log exists, durably, once Create has returned nil, and not before. Remains of an
	// attempt that a crash interrupted do not get in the way.
	Create(name string, size int, from Origin, format func(region.Memory) error) error
	// Open returns the memory of a log, which is lent until it is closed, and its origin.
	Open(name string) (region.Memory, Origin, error)
	// Names returns the names of all logs.
	Names() ([]string, error)
	// Tidy removes what interrupted attempts have left if it is sure that no record was ever appended there,
	// moves the rest aside, and returns how many such files there are now.
	Tidy() (aside int, err error)
}

const nameOctets = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

// possible reports whether a log can have this name. Such a name is safe as the name of a file.
func possible(name string) bool {
	return len(name) > 0 && len(name) <= maxName && name[0] != '.' && strings.Trim(name, nameOctets) == ""
}
