//go:build !linux

package rdmap

import "net"

func newLink(nc net.Conn) link { return newAnyLink(nc) }
