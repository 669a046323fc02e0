//go:build !linux

package bench

import "syscall"

// reno does nothing: the congestion control is the system's.
func reno(_, _ string, _ syscall.RawConn) error { return nil }
