package dir_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// TestConfined: a directory that a local process replaces by a link to the outside leads
// nowhere, cached or not.
func TestConfined(t *testing.T) {
	needLinux(t)
	for _, cached := range []bool{false, true} {
		outside := t.TempDir()
		ok(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600))
		f, path := open(t, &dir.Config{Async: true, SearchLimit: -1})
		d := mkdir(t, f.Root(), "d")
		file := create(t, d, "secret")
		if !cached {
			f.CloseAll()
		}
		ok(t, os.RemoveAll(filepath.Join(path, "d")))
		ok(t, os.Symlink(outside, filepath.Join(path, "d")))

		_, _, err := d.Lookup("secret")
		if err != error(nfs3.ErrStale) && err != error(nfs3.ErrNoEnt) {
			t.Errorf("Lookup: %v", err)
		}
		if _, err := file.Attr(); err != error(nfs3.ErrStale) {
			t.Errorf("Attr: %v", err)
		}
		if _, err := file.Write([]byte("pwned"), 0, nfs3.Unstable); err == nil && !cached {
			t.Error("Write: no error")
		}
		if _, _, err := d.Create("new", in644); err == nil {
			t.Error("Create: no error")
		}
		l, _, err := f.Root().Lookup("d")
		ok(t, err)
		if _, _, err := l.Lookup("secret"); err != error(nfs3.ErrNotDir) {
			t.Errorf("Lookup in the link: %v", err)
		}
		if got, err := os.ReadFile(filepath.Join(outside, "secret")); err != nil || string(got) != "secret" {
			t.Errorf("%q, %v", got, err)
		}
		if list, _ := os.ReadDir(outside); len(list) != 1 {
			t.Errorf("%d files outside", len(list))
		}
	}
}

// TestFileBecomesLink: a link put in a file's place is not followed by writes and chmod.
func TestFileBecomesLink(t *testing.T) {
	needLinux(t)
	f, path := open(t, &dir.Config{Async: true, SearchLimit: -1})
	target := filepath.Join(t.TempDir(), "target")
	ok(t, os.WriteFile(target, []byte("keep"), 0o600))
	file := create(t, f.Root(), "f")
	f.CloseFiles()
	ok(t, os.Remove(filepath.Join(path, "f")))
	ok(t, os.Symlink(target, filepath.Join(path, "f")))
	_, err := file.Write([]byte("x"), 0, nfs3.Unstable)
	want(t, err, nfs3.ErrStale)
	want(t, file.SetAttr(&nfs3.SetAttr{SetMode: true, Mode: 0o777}), nfs3.ErrStale)
	if got, _ := os.ReadFile(target); string(got) != "keep" {
		t.Errorf("%q", got)
	}
}

// TestRootParent: the inode above the export shows nowhere.
func TestRootParent(t *testing.T) {
	needLinux(t)
	f, _ := open(t, nil)
	root, err := f.Root().Attr()
	ok(t, err)
	inode := root.FileID
	for _, plus := range []bool{false, true} {
		_, _, err := f.Root().ReadDir(0, nfs3.CookieVerf{}, plus, func(e *nfs3.DirPlusEntry) bool {
			if e.Name == ".." && e.FileID != inode {
				t.Errorf("\"..\" is %d, the root %d", e.FileID, inode)
			}
			return true
		})
		ok(t, err)
	}
	_, _, err = f.Root().ReadDir(1<<63, dir.CookieVerf, false, func(*nfs3.DirPlusEntry) bool { return true })
	want(t, err, nfs3.ErrBadCookie)
}

// TestClosedMode: a file that nobody may open can be written through the descriptor its
// creation left.
func TestClosedMode(t *testing.T) {
	f, _ := open(t, &dir.Config{Async: true})
	closed := *in644
	closed.Attr.Mode = 0
	n, _, err := f.Root().Create("f", &closed)
	ok(t, err)
	_, err = n.Write([]byte("x"), 0, nfs3.FileSync)
	ok(t, err)
}

func TestNewErrors(t *testing.T) {
	if _, err := dir.New(filepath.Join(t.TempDir(), "none"), nil); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	ok(t, os.WriteFile(file, nil, 0o600))
	if _, err := dir.New(file, nil); err == nil {
		t.Error("served a file")
	}
}
