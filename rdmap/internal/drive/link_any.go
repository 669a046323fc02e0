//go:build !linux

package drive

import (
	"net"
	"time"
)

// NewLink returns the link for nc.
func NewLink(nc net.Conn, _ time.Duration) Link { return NewStream(nc) }
