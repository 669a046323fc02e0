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

// Store keeps the logs of a server. The server never calls two methods at the same time for the
// same name.
type Store interface {
	// Create makes a log of size octets for owner. It calls format with the zeroed memory of the
	// log. The log exists, durably, once Create has returned nil, and not before. Remains of an
	// attempt that a crash interrupted do not get in the way.
	Create(name string, size int, owner Owner, format func(region.Memory) error) error
	// Open returns the memory of a log, which is lent until it is closed, and its owner.
	Open(name string) (region.Memory, Owner, error)
	// Names returns the names of all logs.
	Names() ([]string, error)
}

// HostStore is a Store that remembers for which host each log was made, so that no host gets another
// share after a restart ([Limits.ClientLogs]). With other Stores, logs from before belong to no host.
type HostStore interface {
	Store
	// CreateFor is Create for a client at host, an address without its port, "" if it has none.
	CreateFor(host, name string, size int, owner Owner, format func(region.Memory) error) error
	// Host returns the host of a log, "" if unknown.
	Host(name string) string
}

const nameOctets = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

// possible reports whether a log can have this name. Such a name is safe as the name of a file.
func possible(name string) bool {
	return len(name) > 0 && len(name) <= maxName && name[0] != '.' && strings.Trim(name, nameOctets) == ""
}
