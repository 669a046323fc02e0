package caller

import (
	"errors"
	"slices"
)

// None is the id that setfsuid and chown take for "no change". No user has it.
const None = ^uint32(0)

// Identity is who the kernel takes a system call for. It must not be changed while it is in use.
type Identity struct {
	UID, GID uint32
	Groups   []uint32
}

// Equal reports whether the kernel cannot tell a from b.
func (a *Identity) Equal(b *Identity) bool {
	return a.UID == b.UID && a.GID == b.GID && slices.Equal(a.Groups, b.Groups)
}

// ErrCannot means that this process acts as itself only.
var ErrCannot = errors.New("caller: to act as others, run as root, or with CAP_SETUID and CAP_SETGID, on Linux")

// ErrRefused means that the kernel does not let this process act as an identity: in a user namespace, for
// example, one that is not mapped.
var ErrRefused = errors.New("caller: the kernel refuses these ids: squash them, or map them into the user namespace")
