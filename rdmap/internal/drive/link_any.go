//go:build !linux

package drive

import "net"

// NewLink returns the link for nc.
func NewLink(nc net.Conn) Link { return NewStream(nc) }
