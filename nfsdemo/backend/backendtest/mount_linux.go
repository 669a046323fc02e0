package backendtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// Mounted is a file system of a test.
type Mounted struct {
	At string // where it is mounted

	t    testing.TB
	args []string
	mkfs []string // the command that makes it; nil: it is in memory
}

// Mount makes a file system of a kind (tmpfs, ext4, xfs, btrfs) with so many octets, and mounts it where all users
// can reach it. It skips the test if this machine cannot.
func Mount(t testing.TB, kind string, size int64, mkfs ...string) *Mounted {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounts file systems: for root")
	}
	f := &Mounted{At: filepath.Join(t.TempDir(), "mnt"), t: t}
	if err := os.Mkdir(f.At, 0o755); err != nil {
		t.Fatal(err)
	}
	for p := filepath.Dir(f.At); p != "/"; p = filepath.Dir(p) { // directories of tests are closed to others
		if st, err := os.Stat(p); err == nil && st.Mode().Perm()&0o011 != 0o011 {
			if err := os.Chmod(p, st.Mode().Perm()|0o011); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.args = []string{"-t", "tmpfs", "none", f.At}
	if kind != "tmpfs" {
		image := filepath.Join(t.TempDir(), "image")
		file, err := os.Create(image)
		if err == nil {
			err = file.Truncate(size)
			_ = file.Close() // nothing was written
		}
		if err != nil {
			t.Fatal(err)
		}
		f.mkfs = append(append([]string{"mkfs." + kind, "-q"}, mkfs...), image)
		f.make()
		f.args = []string{"-o", "loop", image, f.At}
	}
	if err := f.mount(); err != nil {
		t.Skip(err)
	}
	t.Cleanup(f.unmount)
	return f
}

// Remount unmounts and mounts again, with more options from now on. It skips the test if the kernel has not got those.
func (f *Mounted) Remount(options ...string) {
	f.t.Helper()
	f.unmount()
	plain := f.args
	for _, o := range options {
		f.args = append([]string{"-o", o}, f.args...)
	}
	err := f.mount()
	if err != nil && len(options) > 0 {
		f.args = plain
		if e := f.mount(); e != nil {
			f.t.Fatal(e)
		}
		f.t.Skip(err)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// Anew unmounts it, and mounts a new one in its place.
func (f *Mounted) Anew() {
	f.t.Helper()
	f.unmount()
	if f.mkfs != nil {
		force := map[string]string{"mkfs.ext4": "-F", "mkfs.xfs": "-f", "mkfs.btrfs": "-f"}
		f.mkfs = slices.Insert(f.mkfs, 1, force[f.mkfs[0]])
		f.make()
	}
	if err := f.mount(); err != nil {
		f.t.Fatal(err)
	}
}

func (f *Mounted) make() {
	f.t.Helper()
	if out, err := exec.Command(f.mkfs[0], f.mkfs[1:]...).CombinedOutput(); err != nil {
		f.t.Skipf("%s: %v %s (make authority installs it)", f.mkfs[0], err, out)
	}
}

func (f *Mounted) mount() error {
	if out, err := exec.Command("mount", f.args...).CombinedOutput(); err != nil {
		return fmt.Errorf("mount %v: %w %s", f.args, err, out)
	}
	return nil
}

func (f *Mounted) unmount() {
	f.t.Helper()
	if out, err := exec.Command("umount", f.At).CombinedOutput(); err != nil {
		f.t.Errorf("umount: %v %s", err, out)
	}
}
