//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package pmem

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock takes the file for this opener alone. Choice: flock, since such a lock belongs to the open
// file: a second opener in the same process is refused too, and closing another descriptor of the
// file does not release it.
func lock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return &Error{Op: "lock", Path: f.Name(), Kind: ErrLocked}
	case err != nil:
		return &Error{Op: "lock", Path: f.Name(), Kind: ErrOpen, Err: err}
	}
	return nil
}

// SyncDir makes the names in a directory durable, after files were created, renamed or removed
// there. It does nothing on systems without such a call.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
