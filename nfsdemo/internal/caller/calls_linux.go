//go:build linux && !386 && !arm

package caller

import "golang.org/x/sys/unix"

const (
	sysSetfsuid  = unix.SYS_SETFSUID
	sysSetfsgid  = unix.SYS_SETFSGID
	sysSetgroups = unix.SYS_SETGROUPS
)
