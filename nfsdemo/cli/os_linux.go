package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// holey reads a file of size octets, but not its holes.
type holey struct {
	f    *os.File
	size int64
}

func skipHoles(f *os.File, size int64) io.ReaderAt { return holey{f, size} }

// ReadAt implements io.ReaderAt. It moves the offset of the file, which no ReadAt uses.
func (h holey) ReadAt(p []byte, off int64) (int, error) {
	end := off + int64(len(p))
	data, err := h.f.Seek(off, unix.SEEK_DATA)
	if errors.Is(err, syscall.ENXIO) { // there are none behind off
		data, err = h.size, nil
	}
	if err == nil && data >= end {
		clear(p)
		return len(p), nil
	}
	return h.f.ReadAt(p, off) // also where the file system has no such call
}

// hasXattrs reports whether a file has extended attributes or an ACL. The label of SELinux is not the file's.
func hasXattrs(path string, link bool) bool {
	list := unix.Listxattr
	if link {
		list = unix.Llistxattr
	}
	names := make([]byte, 64<<10) // the most that Linux has
	n, err := list(path, names)
	if err != nil {
		return false
	}
	for name := range strings.SplitSeq(string(names[:n]), "\x00") {
		if name != "" && name != "security.selinux" {
			return true
		}
	}
	return false
}

// changed returns the ctime, by the clock of the file system.
func changed(st fs.FileInfo) time.Time {
	s, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return time.Time{}
	}
	return time.Unix(int64(s.Ctim.Sec), int64(s.Ctim.Nsec)) //nolint:unconvert // not everywhere
}

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

// diskMounts are the places where file systems of disks are mounted. The others are /proc, /run, what comes from other servers:
// crossmnt must not show them, and knfsd does not, since they have no name that outlives them.
func diskMounts() (all []string) {
	kinds, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return nil
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	disk := map[string]bool{"zfs": true}
	for line := range strings.Lines(string(kinds)) {
		if f := strings.Fields(line); len(f) == 1 { // else "nodev"
			disk[f[0]] = true
		}
	}
	for line := range strings.Lines(string(table)) {
		mount, source, _ := strings.Cut(line, " - ") // proc(5)
		m, f := strings.Fields(mount), strings.Fields(source)
		if len(m) > 4 && len(f) > 0 && disk[f[0]] {
			all = append(all, unescape(m[4]))
		}
	}
	return all
}

// unescape undoes \ooo.
func unescape(s string) string {
	for i := 0; i+3 < len(s); i++ {
		if s[i] == '\\' {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				s = s[:i] + string([]byte{byte(n)}) + s[i+4:]
			}
		}
	}
	return s
}
