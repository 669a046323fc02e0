//go:build !linux

package execute

import "net"

// hangup is known only where poll tells it; elsewhere the end of a connection is noticed when it is read.
type hangup struct{}

func (*hangup) init(net.Conn) {}
func (*hangup) seen() bool    { return false }
