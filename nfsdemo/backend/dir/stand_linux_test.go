package dir_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/backendtest"
	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"golang.org/x/sys/unix"
)

// run runs a command that mounts or unmounts; it skips the test without it.
func run(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skipf("%v (make authority installs it)", err)
	}
	if err != nil {
		t.Fatalf("%s %v: %v %s", name, args, err, out)
	}
}

// TestKernelAnew: handles outlive umount and mount, and end with the file system: those of one made anew at the same
// path are other files, although root and first file have the same numbers.
func TestKernelAnew(t *testing.T) {
	onKernels(t, func(t *testing.T, kind string, m *backendtest.Mounted) {
		handles := func() [2][]byte {
			f := serve(t, m.At)
			defer f.Close()
			return [2][]byte{f.Root().AppendHandle(nil), create(t, f.Root(), "f").AppendHandle(nil)}
		}
		old := handles()
		look := func(what string, stale bool) {
			t.Helper()
			f := serve(t, m.At)
			defer f.Close()
			for i, h := range old {
				n, err := f.Resolve(nil, h)
				if err == nil {
					_, err = n.Attr()
				}
				if stale && err != nfs3.ErrStale || !stale && err != nil {
					t.Errorf("%s: %d: %v", what, i, err)
				}
			}
		}
		look("the same mount", false)
		if kind != "tmpfs" {
			m.Remount()
			look("a new mount", false)
		}
		m.Anew()
		look("made anew", true)
		handles()
		look("with files", true)
	})
}

// TestKernelReplaced: handles of a directory that was moved away do not work for the one that stands at its path now,
// and work again when it is back.
func TestKernelReplaced(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("handles that the kernel opens wherever the file is: for root")
	}
	top := t.TempDir()
	at := top + "/d"
	ok(t, os.Mkdir(at, 0o755))
	f := serve(t, at)
	h := create(t, f.Root(), "f").AppendHandle(nil)
	ok(t, f.Close())
	for _, x := range []struct {
		what  string
		do    func() error
		stale bool
	}{
		{"a new directory", func() error { return errors.Join(os.Rename(at, top+"/old"), os.Mkdir(at, 0o755)) }, true},
		{"a link to another", func() error { return errors.Join(os.Rename(at, top+"/new"), os.Symlink("new", at)) }, true},
		{"a link to the old one", func() error { return errors.Join(os.Remove(at), os.Symlink("old", at)) }, false},
		{"the old one", func() error { return errors.Join(os.Remove(at), os.Rename(top+"/old", at)) }, false},
	} {
		ok(t, x.do())
		f := serve(t, at)
		n, err := f.Resolve(nil, h)
		if err == nil {
			_, err = n.Attr()
		}
		if x.stale && err != nfs3.ErrStale || !x.stale && err != nil {
			t.Errorf("%s: %v", x.what, err)
		}
		ok(t, f.Close())
	}
}

// TestKernelUUID: each way to ask for the UUID gives what mkfs was told.
func TestKernelUUID(t *testing.T) {
	const text = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	for kind, mkfs := range map[string][]string{"ext4": {"-U", text}, "btrfs": {"-U", text}, "xfs": {"-m", "uuid=" + text}} {
		t.Run(kind, func(t *testing.T) {
			m := backendtest.Mount(t, kind, 400<<20, mkfs...)
			for _, id := range dir.UUIDs(t, m.At) {
				if got := fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]); got != text {
					t.Error(got)
				}
			}
		})
	}
}

// TestKernelInstance: where the numbers of files are used again without a trace, handles last as long as the mount,
// unless the administrator says what it is.
func TestKernelInstance(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts file systems: for root")
	}
	for name, mount := range map[string]func(t *testing.T, at, from string){
		"squashfs": func(t *testing.T, at, from string) {
			image := from + ".img"
			if _, err := os.Stat(image); err != nil {
				run(t, "mksquashfs", from, image, "-quiet", "-no-progress")
			}
			run(t, "mount", "-o", "loop", image, at)
		},
		"bindfs": func(t *testing.T, at, from string) { run(t, "bindfs", from, at) },
	} {
		t.Run(name, func(t *testing.T) {
			d := t.TempDir()
			at := d + "/mnt"
			ok(t, os.Mkdir(at, 0o755))
			t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) }) // it is not there if the test has passed
			for _, x := range []string{"x", "z"} {
				ok(t, os.Mkdir(d+"/"+x, 0o755))
				ok(t, os.WriteFile(d+"/"+x+"/f", []byte(x), 0o644))
			}
			var h []byte
			reads := func(fsid string) string {
				t.Helper()
				f, err := dir.New(at, &dir.Config{Key: secret, FSID: fsid})
				ok(t, err)
				defer f.Close()
				if h == nil {
					n, _, err := f.Root().Lookup("f")
					ok(t, err)
					h = n.AppendHandle(nil)
				}
				n, err := f.Resolve(nil, h)
				var b [1]byte
				if err == nil {
					_, err = n.Read(b[:], 0)
				}
				if err != nil {
					return err.Error()
				}
				return string(b[:])
			}
			expect := func(what, got, want string) {
				t.Helper()
				if got != want {
					t.Errorf("%s: %s, want %s", what, got, want)
				}
			}
			mount(t, at, d+"/x")
			expect("first", reads(""), "x")
			var st unix.Statx_t
			if unix.Statx(unix.AT_FDCWD, at, 0, unix.STATX_MNT_ID_UNIQUE, &st) == nil && st.Mask&unix.STATX_MNT_ID_UNIQUE != 0 {
				expect("another process", reads(""), "x")
			}
			run(t, "umount", at)
			mount(t, at, d+"/z")
			expect("another one", reads(""), nfs3.ErrStale.Error())
			run(t, "umount", at)
			mount(t, at, d+"/x")
			expect("the first again", reads(""), nfs3.ErrStale.Error())
			h = nil
			expect("named", reads("x"), "x")
			run(t, "umount", at)
			mount(t, at, d+"/x")
			expect("named, again", reads("x"), "x")
			run(t, "umount", at)
		})
	}
}

// TestKernelOverlay: an inode number that an overlay uses again is another file; one that is copied to the upper layer
// stays the same; both also after umount and mount.
func TestKernelOverlay(t *testing.T) {
	m := backendtest.Mount(t, "ext4", 64<<20)
	opts := ""
	for _, d := range []string{"lowerdir", "upperdir", "workdir", "mnt"} {
		ok(t, os.Mkdir(m.At+"/"+d, 0o755))
		if d != "mnt" {
			opts += "," + d + "=" + m.At + "/" + d
		}
	}
	at := m.At + "/mnt"
	ok(t, os.WriteFile(m.At+"/lowerdir/low", []byte("low"), 0o644))
	mount := func() { run(t, "mount", "-t", "overlay", "none", "-o", opts[1:], at) }
	mount()
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) }) // it is not there if the test has passed
	f := serve(t, at)
	if f.FID() == 0 {
		t.Skip("no handles to tell files apart (Linux 6.6)")
	}
	low, _, err := f.Root().Lookup("low")
	ok(t, err)
	h := low.AppendHandle(nil)
	x := create(t, f.Root(), "x")
	old := x.AppendHandle(nil)
	xa, err := x.Attr()
	ok(t, err)
	ok(t, f.Close())
	ok(t, os.Remove(at+"/x"))
	ok(t, os.WriteFile(at+"/z", []byte("z"), 0o644))
	ok(t, os.WriteFile(at+"/low", []byte("up"), 0o644))
	for range 2 {
		f = serve(t, at)
		_, za, err := f.Root().Lookup("z")
		ok(t, err)
		if za.FileID != xa.FileID {
			t.Log("the inode was not used again")
		}
		n, err := f.Resolve(nil, h)
		ok(t, err)
		b := make([]byte, 3)
		if k, err := n.Read(b, 0); err != nil || string(b[:k]) != "up" {
			t.Errorf("%q, %v", b[:k], err)
		}
		_, err = f.Resolve(nil, old)
		want(t, err, nfs3.ErrStale)
		ok(t, f.Close())
		run(t, "umount", at)
		mount()
	}
	run(t, "umount", at)
}

// TestKernelCheck: what is served is in use, so that nobody unmounts it, until it is closed. What is mounted over it,
// or unmounted by force, shows; what is mounted below it does not.
func TestKernelCheck(t *testing.T) {
	m := backendtest.Mount(t, "tmpfs", 0)
	for _, export := range []string{"", "/sub"} {
		t.Run("export"+export, func(t *testing.T) {
			at := m.At + "/disk"
			ok(t, os.MkdirAll(at, 0o755))
			mount := func() {
				run(t, "mount", "-t", "tmpfs", "none", at)
				run(t, "mount", "--make-shared", at) // as systemd makes all of them
				ok(t, os.MkdirAll(at+export+"/below", 0o755))
				ok(t, os.WriteFile(at+export+"/below/hidden", nil, 0o644))
			}
			mount()
			f := serve(t, at+export)
			if f.Mountpoint() != at {
				t.Error(f.Mountpoint())
			}
			if err := unix.Unmount(at, 0); err != unix.EBUSY {
				t.Errorf("umount while it is served: %v", err)
			}
			run(t, "mount", "-t", "tmpfs", "none", at+export+"/below")
			ok(t, f.Check())
			n, _, err := f.Root().Lookup("below")
			ok(t, err)
			if _, _, err := n.Lookup("hidden"); err != nil {
				t.Errorf("a mount below the export shows: %v", err)
			}
			run(t, "umount", at+export+"/below")
			lost := func(what string) {
				t.Helper()
				if err := f.Check(); err == nil {
					t.Error(what, "did not show")
				} else {
					t.Log(what+":", err)
				}
			}
			run(t, "mount", "-t", "tmpfs", "none", at+export)
			lost("a mount over it")
			run(t, "umount", at+export)
			ok(t, f.Check())
			if f.Private() {
				run(t, "mount", "-o", "remount,bind,ro", at)
				lost("another option")
				run(t, "mount", "-o", "remount,bind,rw", at)
				ok(t, f.Check())
			}
			run(t, "umount", "-l", at)
			lost("umount -l")
			ok(t, f.Close())
			cfg := &dir.Config{Mountpoint: at}
			for _, none := range []string{at, at + "/none"} {
				if _, err := dir.New(m.At, &dir.Config{Mountpoint: none}); err == nil || !strings.Contains(err.Error(), "nothing is mounted at "+none) {
					t.Errorf("nothing is mounted: %v", err)
				}
			}
			mount()
			f, err = dir.New(at+export, cfg)
			ok(t, err)
			ok(t, f.Check())
			ok(t, f.Close())
			run(t, "umount", at) // it is free
		})
	}
}

// TestKernelPulled: a file system whose server has ended does not answer, shows, and can then be unmounted.
func TestKernelPulled(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts file systems: for root")
	}
	d := t.TempDir()
	ok(t, os.MkdirAll(d+"/mnt", 0o755))
	cmd := exec.Command("bindfs", "-f", d, d+"/mnt")
	if err := cmd.Start(); err != nil {
		t.Skipf("%v (make authority installs it)", err)
	}
	for {
		var st unix.Statfs_t
		if ok(t, unix.Statfs(d+"/mnt", &st)); st.Type == unix.FUSE_SUPER_MAGIC {
			break
		}
	}
	f := serve(t, d+"/mnt")
	ok(t, f.Check())
	ok(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	if err := f.Check(); err == nil {
		t.Error("it did not show")
	}
	_ = f.Close() // nothing was written
	run(t, "umount", d+"/mnt")
}

// TestKernelAppend: chattr +a or +i between two WRITEs: the second overwrites nothing, although the file is open and
// access(2) lets its owner and root; COMMIT of what was written before goes on.
func TestKernelAppend(t *testing.T) {
	onKernels(t, func(t *testing.T, kind string, m *backendtest.Mounted) {
		for _, flag := range []int{unix.STATX_ATTR_APPEND, unix.STATX_ATTR_IMMUTABLE} {
			for name, open := range map[string]func(testing.TB, string) *dir.FS{
				"reported": serve, "asked": func(_ testing.TB, p string) *dir.FS { return serveUnwatched(t, p) },
			} {
				t.Run(fmt.Sprint(name, flag), func(t *testing.T) {
					f := open(t, m.At)
					defer f.Close()
					ok(t, os.Chmod(m.At, 0o777))
					made, _, err := f.Root().As(ann).Create("f", in644)
					ok(t, err)
					write := func(n backend.Node) error { _, err := n.Write([]byte("x"), 0, nfs3.Unstable); return err }
					ok(t, write(made))
					chattr(t, filepath.Join(m.At, "f"), flag)
					defer os.Remove(filepath.Join(m.At, "f"))
					defer chattr(t, filepath.Join(m.At, "f"), 0)
					for _, who := range []backend.Node{made, resolve(t, f, made).As(ann)} {
						want(t, write(who), nfs3.ErrPerm)
						_, err = who.Attr() // as the server does before
						ok(t, err)
						want(t, write(who), nfs3.ErrPerm)
						_, err := who.Commit(0, 0)
						ok(t, err)
					}
					f.CloseFiles()
					want(t, write(made), nfs3.ErrPerm)
					_, err = made.Commit(0, 0)
					ok(t, err)
					chattr(t, filepath.Join(m.At, "f"), 0)
					ok(t, write(made))
				})
			}
		}
	})
}

// chattr sets the flags of a file to flag alone.
func chattr(t *testing.T, name string, flag int) {
	t.Helper()
	fd, err := unix.Open(name, unix.O_RDONLY, 0)
	ok(t, err)
	defer unix.Close(fd)
	old, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	ok(t, err)
	const both = unix.STATX_ATTR_APPEND | unix.STATX_ATTR_IMMUTABLE // the numbers are the same
	ok(t, unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, old&^both|flag))
}
