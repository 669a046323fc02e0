//go:build !linux

package rdmap

import "net"

// newLink returns the link for nc.
func newLink(nc net.Conn) link { return newStream(nc) }
