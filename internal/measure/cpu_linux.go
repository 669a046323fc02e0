package measure

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// CPU returns the processor time that this process has used, the kernel's part included.
// On systems other than Linux it returns errors.ErrUnsupported.
func CPU() (time.Duration, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, os.NewSyscallError("getrusage", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
