package dir

import (
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
	f.sys.lacks = f.tryHandles()
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
	other := newSealer(secret, "/another/export")
	return func(h []byte) ([]byte, error) {
		k, err := f.seal.parse(h)
		return other.append(h[:0], &k), err
	}
}

func (f *FS) NoKernelFile() []byte { return f.seal.append(nil, &key{kind: 1, n: 8}) }
