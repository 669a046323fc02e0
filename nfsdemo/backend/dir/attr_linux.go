package dir

import (
	"strconv"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"golang.org/x/sys/unix"
)

// setFD changes owner, mode and times, in this order: a change of owner clears the set-id
// bits, and each of them changes the ctime.
func setFD(fd int, link bool, a *nfs3.SetAttr) error {
	if a.SetUID || a.SetGID {
		uid, gid := -1, -1
		if a.SetUID {
			uid = int(int32(a.UID))
		}
		if a.SetGID {
			gid = int(int32(a.GID))
		}
		if err := unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH); err != nil {
			return err
		}
	}
	if a.SetMode {
		if link {
			return nfs3.ErrNotSupp
		}
		if err := chmodFD(fd, a.Mode&0o7777); err != nil {
			return err
		}
	}
	if a.AtimeHow == nfs3.DontChange && a.MtimeHow == nfs3.DontChange {
		return nil
	}
	ts := []unix.Timespec{timespec(a.AtimeHow, a.Atime), timespec(a.MtimeHow, a.Mtime)}
	return timesFD(fd, ts)
}

// chmodFD changes the mode with fchmodat2 (Linux 6.6 and later), or else by the file's name
// in /proc.
func chmodFD(fd int, mode uint32) error {
	err := unix.Fchmodat(fd, "", mode, unix.AT_EMPTY_PATH)
	if err == unix.EOPNOTSUPP || err == unix.ENOSYS || err == unix.EINVAL {
		return chmodProc(fd, mode)
	}
	return err
}

func chmodProc(fd int, mode uint32) error {
	return unix.Fchmodat(unix.AT_FDCWD, procName(fd), mode, 0)
}

// timesFD changes times. Kernels before 5.8 do not accept an empty path.
func timesFD(fd int, ts []unix.Timespec) error {
	err := unix.UtimesNanoAt(fd, "", ts, unix.AT_EMPTY_PATH)
	if err == unix.EINVAL || err == unix.ENOENT {
		return timesProc(fd, ts)
	}
	return err
}

func timesProc(fd int, ts []unix.Timespec) error {
	return unix.UtimesNanoAt(unix.AT_FDCWD, procName(fd), ts, 0)
}

// procName is a name of an open file that leads to the file itself, even if it is a link.
func procName(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func timespec(how nfs3.TimeHow, t nfs3.Time) unix.Timespec {
	switch how {
	case nfs3.ServerTime:
		return unix.Timespec{Nsec: unix.UTIME_NOW}
	case nfs3.ClientTime:
		return nsecTimespec(t)
	case nfs3.DontChange:
	}
	return unix.Timespec{Nsec: unix.UTIME_OMIT}
}

// nsecTimespec converts t. It limits the nanoseconds to less than a second: the kernel would
// refuse more, or take them for one of its special values.
func nsecTimespec(t nfs3.Time) unix.Timespec {
	ts, _ := unix.TimeToTimespec(nfs3.Time{Sec: t.Sec, Nsec: min(t.Nsec, 999999999)}.Time())
	return ts
}
