//go:build linux && (386 || arm)

package caller

import "golang.org/x/sys/unix"

// The calls without 32 know ids of 16 bits only.
const (
	sysSetfsuid  = unix.SYS_SETFSUID32
	sysSetfsgid  = unix.SYS_SETFSGID32
	sysSetgroups = unix.SYS_SETGROUPS32
)
