//go:build !linux

package measure

import "syscall"

// Reno does nothing: the congestion control is the system's.
func Reno(_, _ string, _ syscall.RawConn) error { return nil }
