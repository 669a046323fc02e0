package dir

import (
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"golang.org/x/sys/unix"
)

// What the tests with a kernel need of the inside: what the FS may do, and how to take it away.

func (f *FS) Handled() bool { return f.sys.handled }
func (f *FS) Private() bool { return f.sys.private }
func (f *FS) CloseGrips()   { f.grips.clear() }

// Publish has the root at fd, a path that others can see, as without the right to copy the mount.
func (f *FS) Publish(fd int) error {
	f.sys.private = false
	unix.Close(f.top.fd)
	f.top.fd = fd
	err := unix.Close(f.sys.mount)
	if err == nil {
		f.sys.mount, err = openat(fd, ".", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	f.sys.lacks = f.tryHandles(0)
	return err
}

// Unwatch is as if the kernel reported no changes.
func (f *FS) Unwatch() error {
	err := f.share.watch.close()
	f.share.watch = watcher{}
	return err
}

func (f *FS) Do(who *caller.Identity, fn func() error) error { return f.sw.Do(who, fn) }

// Foreign returns handles of the same files in another export.
func (f *FS) Foreign(secret []byte) func(h []byte) ([]byte, error) {
	other := newSealer(secret, "/another/export", nil)
	return func(h []byte) ([]byte, error) {
		k, err := f.seal.parse(h)
		return other.append(h[:0], &k), err
	}
}

// FID is not 0 if files are told apart by handles that cannot be opened.
func (f *FS) FID() int64 {
	if !f.sys.fids {
		return 0
	}
	return f.fid(f.top.fd, "", unix.AT_EMPTY_PATH)
}

// UUIDs asks the file system of a path in each way that it understands.
func UUIDs(t testing.TB, path string) (all [][16]byte) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		t.Fatal(err)
	}
	every := uuids
	defer func() { uuids = every }()
	for _, u := range every {
		uuids = append(every[:0:0], u)
		if id, ok := uuid(fd, int64(st.Type)); ok { //nolint:unconvert // another type on other machines
			all = append(all, id)
		}
	}
	if len(all) == 0 {
		t.Error("no UUID")
	}
	return all
}

func (f *FS) NoKernelFile() []byte { return f.seal.append(nil, &key{kind: 1, n: 8}) }
