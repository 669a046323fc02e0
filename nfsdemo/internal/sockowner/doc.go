// Package sockowner tells which user of this machine has the other end of a TCP connection.
package sockowner

import "errors"

// ErrUnknown means that the other end is on this machine, and it is not certain whose it is: its process has closed it, or
// the kernel does not say.
var ErrUnknown = errors.New("the owner of the connection is unknown")

// ErrMute, which comes with ErrUnknown, means that the kernel tells nothing of any socket, for want of tcp_diag.
var ErrMute = errors.New("the kernel does not say whose sockets are")
