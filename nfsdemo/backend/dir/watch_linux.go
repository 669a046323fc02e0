package dir

import (
	"encoding/binary"
	"unsafe"

	"github.com/stag-rdma/stag/internal/shared"
	"golang.org/x/sys/unix"
)

// watcher hears from the kernel when mode, owner, ACL or labels of an open file change (inotify(7)). The ctime, which
// changes with these too, cannot tell: a WRITE changes it as well, and its clock ticks slowly.
type watcher struct {
	fd int // 0: the kernel cannot tell

	mu    shared.RWMutex // held to read the queue: what left it is noted before anybody looks whether it is empty
	files map[int32]*inode
}

// watched is what a watcher knows of a file, guarded by watcher.mu.
type watched struct {
	wd      int32 // 0: the file is not watched
	changes uint64
}

// open watches file systems that change only through this kernel: of those of other machines it hears nothing,
// nor of the lower layers of an overlay.
func (w *watcher) open(fsType int64) {
	switch fsType {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC:
	default:
		return
	}
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return // there are limits on these (inotify(7)): the kernel is asked more often then
	}
	w.fd, w.files = fd, make(map[int32]*inode)
}

func (w *watcher) close() error {
	if w.fd == 0 {
		return nil
	}
	return unix.Close(w.fd)
}

// add watches the file that fd holds; -1: nobody needs to know.
func (w *watcher) add(s *inode, fd int) {
	if w.fd == 0 || fd < 0 {
		return
	}
	w.mu.Lock() // from the call on there may be events of s
	defer w.mu.Unlock()
	if s.wd != 0 {
		return
	}
	wd, err := unix.InotifyAddWatch(w.fd, procName(fd), unix.IN_ATTRIB)
	if err == nil {
		s.wd = int32(wd)
		w.files[s.wd] = s
	}
}

func (w *watcher) remove(s *inode) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.wd == 0 {
		return
	}
	delete(w.files, s.wd)
	_, _ = unix.InotifyRmWatch(w.fd, uint32(s.wd)) // fails if the file system was unmounted
}

// changes returns how often the file has changed, ok if no change is missed.
func (w *watcher) changes(s *inode) (n uint64, ok bool) {
	if w.fd == 0 {
		return 0, false
	}
	n, waiting, ok := w.seen(s)
	if waiting == 0 {
		return n, ok
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read(waiting)
	return s.changes, s.wd != 0
}

// seen returns how often the file was seen to have changed, how many octets wait to be read, and ok if no change is missed
// once they are.
func (w *watcher) seen(s *inode) (n uint64, waiting int, ok bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	waiting, err := w.waiting()
	if ok = s.wd != 0 && err == 0; !ok {
		waiting = 0
	}
	return s.changes, waiting, ok
}

// waiting returns how many octets there are in the queue.
func (w *watcher) waiting() (int, unix.Errno) {
	var n int32
	_, _, e := unix.RawSyscall(unix.SYS_IOCTL, uintptr(w.fd), unix.TIOCINQ, uintptr(unsafe.Pointer(&n)))
	return int(n), e
}

// read takes at least n octets out of the queue: who changes files all the time keeps nobody here.
func (w *watcher) read(n int) {
	buf := make([]byte, 64*unix.SizeofInotifyEvent)
	for n > 0 {
		got, err := unix.Read(w.fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || got <= 0 {
			return // somebody else has read it
		}
		n -= got
		for b := buf[:got]; len(b) >= unix.SizeofInotifyEvent; {
			w.note(int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:]))
			name := binary.NativeEndian.Uint32(b[12:]) // of files in a directory: none here
			b = b[unix.SizeofInotifyEvent+int(name):]
		}
	}
}

// note notes an event.
func (w *watcher) note(wd int32, mask uint32) {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		for _, s := range w.files {
			s.changes++
		}
		return
	}
	s := w.files[wd]
	if s == nil {
		return // of a file that is closed
	}
	s.changes++
	if mask&unix.IN_IGNORED != 0 { // the file system was unmounted
		delete(w.files, wd)
		s.wd = 0
	}
}
