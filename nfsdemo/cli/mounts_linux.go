package cli

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// mountChanges calls changed when the kernel's table of mounts has changed, until ctx ends.
func mountChanges(ctx context.Context, changed func()) {
	// Not by package os, whose poller would hear of a change in our place: it is said once for each open file.
	table, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return // without /proc, a change shows within standEvery
	}
	defer unix.Close(table)
	r, w, err := os.Pipe()
	if err != nil {
		return
	}
	defer r.Close()
	defer context.AfterFunc(ctx, func() { _ = w.Close() })()
	fds := []unix.PollFd{{Fd: int32(table), Events: unix.POLLPRI}, {Fd: int32(r.Fd()), Events: unix.POLLIN}}
	for {
		switch _, err := unix.Poll(fds, -1); {
		case err == unix.EINTR:
		case err != nil || fds[1].Revents != 0:
			return
		case fds[0].Revents&(unix.POLLPRI|unix.POLLERR) != 0: // proc(5)
			changed()
		}
	}
}
