package billy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	gobilly "github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/osfs"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/billy"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// hanging is a file system that does not answer about one file.
type hanging struct {
	gobilly.Filesystem
	inside, free chan struct{}
}

func (h *hanging) Lstat(path string) (os.FileInfo, error) {
	if filepath.Base(path) == "hangs" {
		h.inside <- struct{}{}
		<-h.free
	}
	return h.Filesystem.Lstat(path)
}

// TestHanging: who asks for a file that hangs waits, and so do those that would move it or its directory. Nobody else
// does.
func TestHanging(t *testing.T) {
	root := t.TempDir()
	noErr(t, os.Mkdir(filepath.Join(root, "d"), 0o755))
	for _, name := range []string{"d/hangs", "d/file", "d/gone", "other"} {
		noErr(t, os.WriteFile(filepath.Join(root, name), []byte(name), 0o644))
	}
	under := &hanging{osfs.New(root, osfs.WithBoundOS()), make(chan struct{}), make(chan struct{})}
	f := billy.New(under, &billy.Config{Concurrent: true})
	d, _, err := f.Root().Lookup("d")
	if err != nil {
		t.Fatal(err)
	}
	file, _, err := d.Lookup("file")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 3)
	begin := func(call func() error) { go func() { done <- call() }() }
	begin(func() error { _, _, err := d.Lookup("hangs"); return err })
	<-under.inside
	begin(func() error { return f.Root().Rename("d", f.Root(), "e") })
	begin(func() error { return d.Remove("hangs", false) })
	for what, call := range map[string]func() error{
		"GETATTR": func() error { _, err := f.Root().Attr(); return err },
		"READ": func() error {
			n, _, err := f.Root().Lookup("other")
			if err == nil {
				_, err = n.Read(make([]byte, 1), 0)
			}
			return err
		},
		"CREATE": func() error { _, _, err := f.Root().Create("new", &backend.Init{}); return err },
		// Of the directory that waits to be renamed, changes of names go on: they would keep each other back.
		"REMOVE": func() error { return d.Remove("gone", false) },
		"handle": func() error { _, err := f.Resolve(nil, file.AppendHandle(nil)); return err },
	} {
		if err := call(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	select {
	case err := <-done:
		t.Errorf("a call for the file that hangs has ended: %v", err)
	default:
	}
	close(under.free)
	go func() { <-under.inside }() // REMOVE asks as well
	for range 3 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestMoved: while files change their names, and their directory does, a handle is always that of its own file.
func TestMoved(t *testing.T) {
	root := t.TempDir()
	f := billy.New(&changing{osfs.New(root, osfs.WithBoundOS()), root}, &billy.Config{Concurrent: true})
	d, _, err := f.Root().Create("d", &backend.Init{Type: nfs3.TypeDir})
	if err != nil {
		t.Fatal(err)
	}
	files := make([]backend.Node, 3)
	for i := range files {
		n, _, err := d.Create(fmt.Sprint(i), &backend.Init{})
		if err == nil {
			_, err = n.Write([]byte(strings.Repeat(fmt.Sprint(i), 100)), 0, nfs3.Unstable)
		}
		if err != nil {
			t.Fatal(err)
		}
		files[i] = n
	}
	const rounds = 300
	var calls sync.WaitGroup
	run := func(call func(i int) error) {
		calls.Go(func() {
			for i := range rounds {
				if err := call(i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	run(func(int) error { // the three go round
		for _, step := range [][2]string{{"0", "x"}, {"1", "0"}, {"2", "1"}, {"x", "2"}} {
			if err := d.Rename(step[0], d, step[1]); err != nil {
				return fmt.Errorf("%v: %w", step, err)
			}
		}
		return nil
	})
	run(func(i int) error {
		names := []string{"d", "e"}
		return f.Root().Rename(names[i%2], f.Root(), names[1-i%2])
	})
	for k, n := range files {
		run(func(int) error {
			p := make([]byte, 100)
			if got, err := n.Read(p, 0); err != nil || string(p[:got]) != strings.Repeat(fmt.Sprint(k), 100) {
				return fmt.Errorf("file %d: %q, %w", k, p[:got], err)
			}
			return nil
		})
		run(func(i int) error {
			_, err := n.Write([]byte{'0' + byte(k)}, uint64(i%100), nfs3.Unstable)
			return err
		})
	}
	run(func(int) error {
		_, _, err := d.ReadDir(0, nfs3.CookieVerf{}, true, func(e *nfs3.DirPlusEntry) bool { return true })
		return err
	})
	calls.Wait()
}
