// Package sockowner tells which user of this machine has the other end of a TCP connection.
package sockowner

import (
	"errors"
	"net"
)

// ErrUnknown means that the kernel knows no such connection, or does not tell.
var ErrUnknown = errors.New("sockowner: the owner of the connection is unknown")

// IsLocal reports whether a connection that was accepted comes from this machine itself.
func IsLocal(local, remote *net.TCPAddr) bool {
	return remote.IP.IsLoopback() || remote.IP.Equal(local.IP)
}
