//go:build !linux

package sockowner

import "net"

// Of returns ErrUnknown.
func Of(_, _ *net.TCPAddr) (uint32, error) { return 0, ErrUnknown }
