package billy_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	gobilly "github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/memfs"
	"github.com/go-git/go-billy/v5/osfs"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/backendtest"
	"github.com/stag-rdma/stag/nfsdemo/backend/billy"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
)

// changing is a directory that also implements billy.Change. Its Remove does not follow links, as osfs's does.
type changing struct {
	gobilly.Filesystem
	root string
}

func (c *changing) Chmod(name string, mode os.FileMode) error {
	return os.Chmod(filepath.Join(c.root, name), mode)
}

func (c *changing) Remove(name string) error               { return os.Remove(filepath.Join(c.root, name)) }
func (c *changing) Lchown(name string, uid, gid int) error { return gobilly.ErrNotSupported }
func (c *changing) Chown(name string, uid, gid int) error  { return gobilly.ErrNotSupported }
func (c *changing) Chtimes(name string, atime, mtime time.Time) error {
	return os.Chtimes(filepath.Join(c.root, name), atime, mtime)
}

// TestSuite: a directory through go-billy is a backend like the others, but for links and special files.
func TestSuite(t *testing.T) {
	backendtest.Run(t, backendtest.Options{
		New: func(t *testing.T) backend.FS {
			root := t.TempDir()
			return billy.New(&changing{osfs.New(root, osfs.WithBoundOS()), root}, &billy.Config{MaxFileSize: 1<<63 - 1})
		},
		NoSpecial: true, NoLinks: true, Paths: true, Big: 300,
	})
}

// serve serves a file system and returns a client of it.
func serve(t testing.TB, fsys backend.FS) *nfsclient.Client {
	t.Helper()
	h, err := server.New(&server.Config{Exports: []server.Export{{Path: "/export", FS: fsys, Squash: server.SquashNone}}})
	noErr(t, err)
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := &transport.Server{Handler: h}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	u := must(nfsclient.ParseURL("nfs+rdma://" + l.Addr().String() + "/export"))(t)
	c := must(nfsclient.Dial(t.Context(), u, nil))(t)
	t.Cleanup(func() { c.Close(); s.Close(); <-done })
	return c
}

// TestMemfs: go-billy's file system in memory, which does not know times and must not be used by several
// goroutines at a time.
func TestMemfs(t *testing.T) {
	c := serve(t, billy.New(memfs.New(), nil))
	ctx := t.Context()
	dir := must(c.MkdirAll(ctx, "/export/a/b", 0o755))(t)
	data := bytes.Repeat([]byte("0123456789"), 300000)
	errs := make(chan error)
	for i := range 8 {
		go func() {
			n, err := c.Create(ctx, dir, fmt.Sprint(i), 0o644, true)
			if err == nil {
				_, err = c.WriteFrom(ctx, n, bytes.NewReader(data), 0, int64(len(data)), nil)
			}
			errs <- err
		}()
	}
	for range 8 {
		noErr(t, <-errs)
	}
	got, err := fs.ReadFile(c.FS(ctx), "a/b/7")
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d octets, %v", len(got), err)
	}
	n := must(c.Lookup(ctx, "/export/a/b/7"))(t)
	before := n.Attr
	time.Sleep(5 * time.Millisecond)
	if err := c.Refresh(ctx, n); err != nil || n.Attr != before {
		t.Errorf("attributes change by themselves: %v\n%+v\n%+v", err, before, n.Attr)
	}
	if err := c.SetAttr(ctx, n, &nfs3.SetAttr{SetSize: true, Size: 2 << 30}); err == nil {
		t.Error("2 GiB of memory")
	}
	if count, err := c.RemoveAll(ctx, c.Root(), must(c.Lookup(ctx, "/export/a"))(t)); count != 10 || err != nil {
		t.Errorf("%d removed, %v", count, err)
	}
}

// TestReadOnly: file systems of io/fs, which pass the suite of the standard library at the other end.
func TestReadOnly(t *testing.T) {
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	for _, name := range []string{"x", "dir/y", "dir/sub/z"} {
		w := must(z.Create(name))(t)
		fmt.Fprint(w, strings.Repeat(name, 30))
	}
	noErr(t, z.Close())
	zipped := must(zip.NewReader(bytes.NewReader(archive.Bytes()), int64(archive.Len())))(t)
	for name, fsys := range map[string]fs.FS{
		"zip": zipped,
		"map": fstest.MapFS{"x": {Data: []byte("x")}, "dir/y": {Data: []byte("y")}, "dir/sub/z": {Data: []byte("z"), Mode: 0o600}},
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, billy.New(billy.ReadOnly(fsys), nil))
			if err := fstest.TestFS(c.FS(t.Context()), "x", "dir/y", "dir/sub/z"); err != nil {
				t.Error(err)
			}
			want, err := fs.ReadFile(fsys, "dir/sub/z")
			got, gerr := fs.ReadFile(c.FS(t.Context()), "dir/sub/z")
			if err != nil || gerr != nil || !bytes.Equal(got, want) {
				t.Errorf("%q, %v %v", got, err, gerr)
			}
			for what, err := range map[string]error{
				"Create": second(c.Create(t.Context(), c.Root(), "new", 0o644, true)), "Mkdir": second(c.Mkdir(t.Context(), c.Root(), "new", 0o755)),
				"Remove": c.Remove(t.Context(), c.Root(), "x"), "Rename": c.Rename(t.Context(), c.Root(), "x", c.Root(), "new"),
				"SetAttr": c.SetAttr(t.Context(), c.Root(), &nfs3.SetAttr{SetMode: true}),
			} {
				if !errors.Is(err, nfs3.ErrROFS) {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
}

func second(_ *nfsclient.Node, err error) error { return err }

// TestForgotten: the least recently used handles are forgotten, but not those of directories in use.
func TestForgotten(t *testing.T) {
	f := billy.New(memfs.New(), &billy.Config{MaxFiles: 10})
	dir, _, err := f.Root().Create("dir", &backend.Init{Type: nfs3.TypeDir})
	noErr(t, err)
	var first backend.Node
	for i := range 20 {
		n, _, err := dir.Create(fmt.Sprint(i), &backend.Init{})
		noErr(t, err)
		if i == 0 {
			first = n
		}
	}
	if _, err := f.Resolve(nil, first.AppendHandle(nil)); !errors.Is(err, nfs3.ErrStale) {
		t.Errorf("the first file: %v", err)
	}
	if _, err := f.Resolve(nil, dir.AppendHandle(nil)); err != nil {
		t.Errorf("the directory: %v", err)
	}
	if n, _, err := dir.Lookup("0"); err != nil || string(n.AppendHandle(nil)) == string(first.AppendHandle(nil)) {
		t.Errorf("found again: %v", err)
	}
}

// A file system in memory, written for go-billy, over NFS/RDMA.
func Example() {
	under := memfs.New()
	export := server.Export{Path: "/mem", FS: billy.New(under, nil), Squash: server.SquashNone}
	h, err := server.New(&server.Config{Exports: []server.Export{export}})
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	s := &transport.Server{Handler: h}
	defer s.Close()
	go s.Serve(l) //nolint:errcheck // it ends with Close

	ctx := context.Background()
	u, _ := nfsclient.ParseURL("nfs+rdma://" + l.Addr().String() + "/mem")
	c, err := nfsclient.Dial(ctx, u, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	n, _ := c.Create(ctx, c.Root(), "hello", 0o644, true)
	_, err = c.WriteFrom(ctx, n, strings.NewReader("from afar"), 0, -1, nil)
	f, _ := under.Open("hello")
	text := make([]byte, 9)
	_, _ = f.Read(text)
	fmt.Printf("%s %v\n", text, err)
	// Output: from afar <nil>
}

// A tree of io/fs over NFS, here one in memory; an embed.FS or a zip.Reader works the same way.
func ExampleReadOnly() {
	site := fstest.MapFS{"index.html": {Data: []byte("<h1>hello</h1>")}}
	fsys := billy.New(billy.ReadOnly(site), nil)
	n, _, err := fsys.Root().Lookup("index.html")
	if err != nil {
		log.Fatal(err)
	}
	text := make([]byte, 100)
	got, err := n.Read(text, 0)
	fmt.Printf("%s %v\n", text[:got], err)
	// Output: <h1>hello</h1> <nil>
}

// must returns v, unless err ends the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		noErr(t, err)
		return v
	}
}

// noErr ends the test if err is an error.
func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// counted counts how often a directory is read.
type counted struct {
	gobilly.Filesystem
	reads int
}

func (c *counted) ReadDir(path string) ([]os.FileInfo, error) {
	c.reads++
	return c.Filesystem.ReadDir(path)
}

// TestListing: a directory is read once for all its pages, and who continues sees what was renamed or removed meanwhile
// as it is now.
func TestListing(t *testing.T) {
	under := &counted{Filesystem: memfs.New()}
	const many = 1000
	for i := range many {
		f := must(under.Create(fmt.Sprintf("d/%04d", i)))(t)
		f.Close()
	}
	d, _, err := billy.New(under, nil).Root().Lookup("d")
	noErr(t, err)
	under.reads = 0
	seen := make(map[string]int)
	var last nfs3.DirPlusEntry
	var verf nfs3.CookieVerf
	for pages, done := 0, false; !done; pages++ {
		n := 0
		verf, done, err = d.ReadDir(last.Cookie, verf, true, func(e *nfs3.DirPlusEntry) bool {
			if n++; n > 100 {
				return false
			}
			last = *e
			seen[e.Name]++
			return true
		})
		noErr(t, err)
		if pages == 1 {
			noErr(t, d.Remove("0998", false))
			noErr(t, d.Rename("0999", d, "other"))
		}
	}
	if under.reads != 1 || len(seen) != many+1 || seen["other"] != 1 || seen["0998"]+seen["0999"] != 0 {
		t.Errorf("read %d times; %d names, other %d, removed %d, renamed %d", under.reads, len(seen), seen["other"], seen["0998"], seen["0999"])
	}
	for name, k := range seen {
		if k != 1 {
			t.Errorf("%s: %d times", name, k)
		}
	}
}

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
	noErr(t, err)
	file, _, err := d.Lookup("file")
	noErr(t, err)
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
	noErr(t, err)
	files := make([]backend.Node, 3)
	for i := range files {
		n, _, err := d.Create(fmt.Sprint(i), &backend.Init{})
		if err == nil {
			_, err = n.Write([]byte(strings.Repeat(fmt.Sprint(i), 100)), 0, nfs3.Unstable)
		}
		noErr(t, err)
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
