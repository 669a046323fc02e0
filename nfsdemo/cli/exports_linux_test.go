package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/internal/exports"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
	"golang.org/x/sys/unix"
)

// TestKernelMountChanges: each change of the kernel's table of mounts is heard of.
func TestKernelMountChanges(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts file systems: for root")
	}
	ctx, cancel := context.WithCancel(t.Context())
	heard, done, at := make(chan struct{}, 1), make(chan struct{}), t.TempDir()
	go func() {
		defer close(done)
		mountChanges(ctx, func() {
			select {
			case heard <- struct{}{}:
			default:
			}
		})
	}()
	for begun := false; !begun; {
		noErr(t, unix.Mount("none", at, "tmpfs", 0, ""))
		noErr(t, unix.Unmount(at, 0))
		select {
		case <-heard:
			begun = true
		default:
		}
	}
	for range 10 { // at most two that are heard are of before
		noErr(t, unix.Mount("none", at, "tmpfs", 0, ""))
		<-heard
		noErr(t, unix.Unmount(at, 0))
		<-heard
	}
	cancel()
	<-done
}

// TestKernelPlaces: what the server keeps from clients is not exported by the name of a mount, either.
func TestKernelPlaces(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts directories: for root")
	}
	d := t.TempDir()
	at, state := filepath.Join(d, "at"), filepath.Join(d, "var", "state")
	noErr(t, os.Mkdir(at, 0o755))
	noErr(t, os.MkdirAll(state, 0o755))
	cfg := &serviceConfig{state: state}
	for _, from := range []string{state, filepath.Dir(state)} {
		noErr(t, cfg.checkPlaces(one(at), inside))
		noErr(t, unix.Mount(from, at, "", unix.MS_BIND, ""))
		err := cfg.checkPlaces(one(at), inside)
		noErr(t, unix.Unmount(at, 0))
		if err == nil {
			t.Errorf("an export where %s is mounted too", from)
		}
	}
}

// TestKernelCross: with crossmnt, a disk that is mounted below an export, also while it is served, is reached from there as a file
// system of its own, and nothing that is not one of a disk.
func TestKernelCross(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts file systems: for root")
	}
	d := t.TempDir()
	export := filepath.Join(d, "e")
	at := []string{filepath.Join(export, "a"), filepath.Join(export, "a", "b"), filepath.Join(export, "late one"), filepath.Join(export, "tmp")}
	mount := func(i int) {
		t.Helper()
		image := filepath.Join(d, fmt.Sprint(i))
		noErr(t, os.WriteFile(image, nil, 0o600))
		noErr(t, os.Truncate(image, 64<<20))
		noErr(t, os.MkdirAll(at[i], 0o755))
		for _, args := range [][]string{{"mkfs.ext4", "-q", image}, {"mount", "-o", "loop", image, at[i]}} {
			if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); errors.Is(err, exec.ErrNotFound) {
				t.Skip(err)
			} else if err != nil {
				t.Fatalf("%v: %v, %s", args, err, out)
			}
		}
		t.Cleanup(func() { _ = unix.Unmount(at[i], unix.MNT_DETACH) })
		noErr(t, os.WriteFile(filepath.Join(at[i], "x"), []byte{byte(i)}, 0o644))
	}
	mount(0)
	mount(1)
	for _, dir := range at[2:] {
		noErr(t, os.Mkdir(dir, 0o755))
	}
	noErr(t, unix.Mount("none", at[3], "tmpfs", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(at[3], unix.MNT_DETACH) })
	noErr(t, os.WriteFile(filepath.Join(at[3], "secret"), nil, 0o644))

	s := started(t, &serviceConfig{
		exports: []exports.Export{{Export: server.Export{Path: export, Squash: server.SquashNone}, Cross: true}},
		rdma:    "127.0.0.1:0", config: &transport.Config{},
	})
	served := func(path string, want bool) {
		t.Helper()
		eventually(t, func() bool {
			return slices.ContainsFunc(s.set.exports(), func(e server.Export) bool { return e.Path == path && e.FS != nil }) == want
		}, path, " is not served, or is: ", want)
	}
	c, err := client(t, s, export)
	noErr(t, err)
	fsids := map[uint64]bool{c.Root().Attr.FSID: true}
	cross := func(i int) *nfsclient.Node {
		t.Helper()
		served(at[i], true)
		dir, err := c.Lookup(t.Context(), at[i])
		noErr(t, err)
		x, err := c.Lookup(t.Context(), filepath.Join(at[i], "x"))
		noErr(t, err)
		buf := make([]byte, 1)
		if _, err := c.ReadAt(t.Context(), x, buf, 0); err != nil || buf[0] != byte(i) || fsids[dir.Attr.FSID] || x.Attr.FSID != dir.Attr.FSID {
			t.Errorf("%s: %v, %v, file system %x", at[i], buf, err, dir.Attr.FSID)
		}
		fsids[dir.Attr.FSID] = true
		return x
	}
	cross(0)
	cross(1)
	mount(2)
	x := cross(2)
	if _, err := c.Lookup(t.Context(), filepath.Join(at[3], "secret")); !errors.Is(err, nfs3.ErrNoEnt) {
		t.Errorf("a tmpfs: %v", err)
	}
	if err := unix.Unmount(at[2], 0); err != unix.EBUSY {
		t.Errorf("umount of a disk that is served: %v", err)
	}
	noErr(t, unix.Unmount(at[2], unix.MNT_DETACH))
	served(at[2], false)
	if err := c.Refresh(t.Context(), x); !errors.Is(err, nfs3.ErrStale) {
		t.Errorf("of a disk that is gone: %v", err)
	}
	if _, err := s.unexport(t.Context(), at[1]); err != nil {
		t.Error(err)
	}
	s.set.look()
	served(at[1], false)
	if _, err := s.unexport(t.Context(), export); err != nil || len(s.set.exports()) > 0 {
		t.Error("what is mounted below an export stays without it:", err)
	}
}

// TestKernelDisk: a disk that comes, goes and comes back under a running server with a client.
func TestKernelDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts file systems: for root")
	}
	run := func(name string, args ...string) {
		t.Helper()
		out, err := exec.Command(name, args...).CombinedOutput()
		if errors.Is(err, exec.ErrNotFound) {
			t.Skipf("%v (make authority installs it)", err)
		}
		if err != nil {
			t.Fatalf("%s %v: %v %s", name, args, err, out)
		}
	}
	d := t.TempDir()
	at := filepath.Join(d, "disk")
	noErr(t, os.Mkdir(at, 0o755))
	for _, image := range []string{"one", "another"} {
		image = filepath.Join(d, image)
		noErr(t, os.WriteFile(image, nil, 0o600))
		noErr(t, os.Truncate(image, 64<<20))
		run("mkfs.ext4", "-q", image)
	}
	mount := func(image string) { run("mount", "-o", "loop", filepath.Join(d, image), at) }
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) }) // it is not there if the test has passed

	other := exports.Export{Export: server.Export{Path: d}}
	disk := exports.Export{Export: server.Export{Path: at, Squash: server.SquashNone}, Mountpoint: at}
	list := []exports.Export{other, disk}
	s := started(t, &serviceConfig{
		exports: list, again: func() ([]exports.Export, error) { return list, nil }, rdma: "127.0.0.1:0", config: &transport.Config{},
	})
	reload := func(all ...exports.Export) {
		t.Helper()
		list = all
		_, err := s.reload()
		noErr(t, err)
	}
	free := func(what string) {
		t.Helper()
		eventually(t, func() bool { return unix.Unmount(at, 0) == nil }, what, "it stays in use")
	}
	if _, err := client(t, s, at); err == nil {
		t.Error("what lies below the mount point is served")
	}
	mount("one")
	settled(t, s, 0)
	c, err := client(t, s, at)
	noErr(t, err)
	x, err := c.Create(t.Context(), c.Root(), "x", 0o644, false)
	noErr(t, err)
	_, err = c.WriteFrom(t.Context(), x, strings.NewReader("x"), 0, 1, nil)
	noErr(t, err)
	if err := unix.Unmount(at, 0); err != unix.EBUSY {
		t.Errorf("umount of a disk that is served: %v", err)
	}
	reads := func(n *nfsclient.Node) error {
		_, err := c.ReadAt(t.Context(), n, make([]byte, 1), 0)
		return err
	}

	reload(other)
	free("exported no longer:")
	if err := reads(x); !errors.Is(err, nfs3.ErrStale) {
		t.Errorf("exported no longer: %v", err)
	}
	reload(other, disk)
	if err := reads(x); !errors.Is(err, nfs3.ErrJukebox) {
		t.Errorf("not mounted: %v", err)
	}
	mount("one")
	settled(t, s, 0)
	noErr(t, reads(x)) // it is back
	reload(other, disk)
	noErr(t, reads(x)) // opened anew

	_, err = s.unexport(t.Context(), at)
	noErr(t, err)
	free("unexported:")
	if err := reads(x); !errors.Is(err, nfs3.ErrStale) {
		t.Errorf("unexported: %v", err)
	}
	mount("one")
	reload(other, disk)
	settled(t, s, 0)
	noErr(t, reads(x))

	noErr(t, unix.Unmount(at, unix.MNT_DETACH))
	settled(t, s, 1)
	if err := reads(x); !errors.Is(err, nfs3.ErrJukebox) {
		t.Errorf("pulled: %v", err)
	}
	mount("another")
	settled(t, s, 0)
	for _, n := range []*nfsclient.Node{x, c.Root()} {
		if err := c.Refresh(t.Context(), n); !errors.Is(err, nfs3.ErrStale) {
			t.Errorf("another disk: %v", err)
		}
	}

	// Without the option, what a disk has hidden is not served in its place until somebody says so.
	disk.Mountpoint = ""
	reload(other, disk)
	noErr(t, unix.Unmount(at, unix.MNT_DETACH))
	settled(t, s, 1)
	s.set.look()
	reload(other, disk)
	if away := s.set.away(); len(away) != 0 {
		t.Error(away)
	}
}
