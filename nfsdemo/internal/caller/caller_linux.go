package caller

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fileCaps are what the kernel's NFS server takes from its threads (CAP_NFSD_SET in Linux): with them a
// file system does not check.
const fileCaps = 1<<unix.CAP_CHOWN | 1<<unix.CAP_MKNOD | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH |
	1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID | 1<<unix.CAP_SYS_RESOURCE | 1<<unix.CAP_LINUX_IMMUTABLE | 1<<unix.CAP_MAC_OVERRIDE

// caps are the capabilities of a thread.
type caps [2]unix.CapUserData

func (c *caps) call(trap uintptr) bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	_, _, e := syscall.RawSyscall(trap, uintptr(unsafe.Pointer(&hdr)), uintptr(unsafe.Pointer(&c[0])), 0)
	return e == 0
}

func (c *caps) get() bool { return c.call(unix.SYS_CAPGET) }

// take gives this thread the capabilities c. To look first is cheap; a change makes a copy of all that the kernel
// knows of the thread's rights.
func (c *caps) take() bool {
	var now caps
	return now.get() && (now == *c || c.call(unix.SYS_CAPSET))
}

func (c *caps) effective() uint64 { return uint64(c[1].Effective)<<32 | uint64(c[0].Effective) }

func (c *caps) lower(m uint64) {
	c[0].Effective &^= uint32(m)
	c[1].Effective &^= uint32(m >> 32)
}

// raise makes m effective as far as it is permitted.
func (c *caps) raise(m uint64) {
	c[0].Effective |= uint32(m) & c[0].Permitted
	c[1].Effective |= uint32(m>>32) & c[1].Permitted
}

// Switcher switches threads to other identities. It is safe for concurrent use. The process must not
// change its own ids, groups and capabilities after New.
type Switcher struct {
	uid, gid uint32
	groups   []uint32
	own      caps // of a thread at rest, perhaps less CAP_SYS_RESOURCE
	plain    caps // of a thread that acts as a user
	super    caps // of a thread that acts as uid 0
	over     caps // of a thread that acts as a user whom no mode bits stop
	limited  caps // own, less CAP_SYS_RESOURCE
	// With its fsuid a thread gets its own capabilities back, except CAP_SYS_RESOURCE: so it is for root. The next
	// user would not have that, and uid 0 takes it again.
	restored bool
}

// New looks at the process, and tries the switch on this thread.
func New() (*Switcher, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s := &Switcher{}
	if !s.own.get() {
		return nil, errors.New("caller: the kernel does not tell the capabilities of the process")
	}
	const need = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID
	if s.own.effective()&need != need {
		return nil, ErrCannot
	}
	s.uid, s.gid = fsid(sysSetfsuid), fsid(sysSetfsgid)
	groups, err := unix.Getgroups()
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		s.groups = append(s.groups, uint32(g))
	}
	if !setgroups(s.groups) { // before anything else is changed: no way back would be the end of the process
		return nil, fmt.Errorf("%w: the user namespace does not map its own groups", ErrCannot)
	}
	s.plain, s.super = s.own, s.own
	s.plain.lower(fileCaps)
	s.super.raise(fileCaps)
	s.limited = s.own
	s.limited.lower(1 << unix.CAP_SYS_RESOURCE)
	s.over = s.plain
	s.over.raise(1 << unix.CAP_DAC_OVERRIDE)
	if err := s.prove(); err != nil {
		return nil, err
	}
	return s, nil
}

// prove becomes nobody, and looks which capabilities are left then, and which come back.
func (s *Switcher) prove() error {
	id := &Identity{UID: 65534, GID: 65534}
	if err := s.become(id, &s.plain); err != nil {
		return fmt.Errorf("%w: the user namespace does not map 65534, which is nobody", ErrCannot)
	}
	var then, back caps
	then.get()
	s.restored = true
	s.revert(id)
	back.get()
	back.raise(1 << unix.CAP_SYS_RESOURCE)
	most := s.own
	most.raise(1 << unix.CAP_SYS_RESOURCE)
	if s.restored = back == most; !s.restored && !s.own.take() {
		abort()
	}
	if then.effective()&fileCaps != 0 {
		return errors.New("caller: the capabilities of the process stay in effect: check its secure bits")
	}
	return nil
}

// fsid reads an id: the call returns the old one, and does not change it to None.
func fsid(trap uintptr) uint32 {
	v, _, _ := syscall.RawSyscall(trap, uintptr(None), 0, 0)
	return uint32(v)
}

// setfs changes an id. The call itself reports no error, so the id is read back.
func setfs(trap uintptr, id uint32) bool {
	syscall.RawSyscall(trap, uintptr(id), 0, 0)
	return fsid(trap) == id
}

func setgroups(g []uint32) bool {
	_, _, e := syscall.RawSyscall(sysSetgroups, uintptr(len(g)), uintptr(unsafe.Pointer(unsafe.SliceData(g))), 0)
	return e == 0
}

// regroups reports whether the groups must be switched.
func (s *Switcher) regroups(id *Identity) bool {
	return id.UID != 0 && !slices.Equal(id.Groups, s.groups)
}

// become makes this thread id, with the capabilities c. The ids come first: a change of the fsuid from or
// to 0 changes capabilities.
func (s *Switcher) become(id *Identity, c *caps) error {
	if id.UID == None || id.GID == None || slices.Contains(id.Groups, None) {
		return ErrRefused
	}
	ok := !s.regroups(id) || setgroups(id.Groups)
	ok = ok && (id.GID == s.gid || setfs(sysSetfsgid, id.GID))
	ok = ok && (id.UID == s.uid || setfs(sysSetfsuid, id.UID))
	if !ok || !c.take() {
		s.revert(id)
		return ErrRefused
	}
	return nil
}

// revert makes this thread one of the process again.
func (s *Switcher) revert(id *Identity) {
	ok := id.UID == s.uid || setfs(sysSetfsuid, s.uid)
	ok = ok && (id.GID == s.gid || setfs(sysSetfsgid, s.gid))
	ok = ok && (!s.regroups(id) || setgroups(s.groups))
	if !ok || !s.restored && !s.own.take() {
		abort()
	}
}

// abort ends the process without running anything else of it.
func abort() {
	const text = "caller: a thread could not get its own identity back; the process ends\n"
	b := []byte(text)
	syscall.RawSyscall(unix.SYS_WRITE, 2, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 134, 0, 0) // 128 + SIGABRT, as a shell shows it
	}
}

// capsFor returns the capabilities of a thread that acts as id.
func (s *Switcher) capsFor(id *Identity) *caps {
	if id.UID == 0 {
		return &s.super
	}
	return &s.plain
}

// Do runs fn on this thread as id: the system calls that fn makes itself, not those of goroutines that it
// starts. fn holds a thread, so it must not wait for other goroutines. Its error is returned as it is.
func (s *Switcher) Do(id *Identity, fn func() error) error {
	return s.run(id, s.capsFor(id), fn)
}

// DoUser is Do with the uid and the capabilities alone: what remains to be decided about an open file, as quotas and
// reserved blocks, goes by these, and to switch the groups costs as much again.
func (s *Switcher) DoUser(id *Identity, fn func() error) error {
	user := Identity{UID: id.UID, GID: s.gid, Groups: s.groups}
	return s.run(&user, s.capsFor(id), fn)
}

// Limited is Do without a switch, less CAP_SYS_RESOURCE: for what goes neither by ids nor by groups, but must keep
// to quotas as a user must. A thread stays without the capability (see Other effects), so that it is taken once.
func (s *Switcher) Limited(id *Identity, fn func() error) error {
	if id.UID == 0 {
		return s.Do(id, fn)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if !s.limited.take() {
		return ErrRefused
	}
	return fn()
}

// Override is Do for a caller whom the mode and ACL of the file do not stop: NFS has no open files, so it
// lets the owner of a file read and write it, as local programs do that have opened it before.
func (s *Switcher) Override(id *Identity, fn func() error) error {
	if id.UID == 0 {
		return s.Do(id, fn)
	}
	return s.run(id, &s.over, fn)
}

func (s *Switcher) run(id *Identity, c *caps, fn func() error) error {
	runtime.LockOSThread()
	if err := s.become(id, c); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer func() { // also if fn panics
		s.revert(id)
		runtime.UnlockOSThread()
	}()
	return fn()
}
