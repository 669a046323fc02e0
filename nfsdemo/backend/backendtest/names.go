package backendtest

import (
	"errors"
	"strings"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

func testRemove(e *env) {
	root := e.fs.Root()
	f, d := e.create(root, "f"), e.mkdir(root, "d")
	e.want("Remove of a directory", root.Remove("d", false), nfs3.ErrIsDir)
	e.want("Rmdir of a file", root.Remove("f", true), nfs3.ErrNotDir)
	e.want("Remove of nothing", root.Remove("x", false), nfs3.ErrNoEnt)
	e.want("Rmdir of nothing", root.Remove("x", true), nfs3.ErrNoEnt)
	e.create(d, "inner")
	e.want("Rmdir of a full directory", root.Remove("d", true), nfs3.ErrNotEmpty)
	e.ok("Remove", d.Remove("inner", false))
	e.ok("Rmdir", root.Remove("d", true))
	e.ok("Remove", root.Remove("f", false))
	e.missing(root, "f")
	e.missing(root, "d")
	_, err := f.Attr()
	e.want("Attr of a removed file", err, nfs3.ErrStale)
	_, err = d.Attr()
	e.want("Attr of a removed directory", err, nfs3.ErrStale)
	_, _, err = root.Create("l", linkTo("nowhere"))
	e.ok("Symlink", err)
	e.ok("Remove of a link", root.Remove("l", false))
}

func testRename(e *env) {
	root := e.fs.Root()
	a, b := e.mkdir(root, "a"), e.mkdir(root, "b")
	f := e.create(a, "f")
	e.write(f, []byte("content"), 0)
	e.ok("same directory", a.Rename("f", a, "g"))
	e.missing(a, "f")
	e.ok("other directory", a.Rename("g", b, "h"))
	e.missing(a, "g")
	e.same(f, e.lookup(b, "h"))
	old := e.create(a, "old")
	e.ok("over a file", b.Rename("h", a, "old"))
	e.same(f, e.lookup(a, "old"))
	_, err := old.Attr()
	e.want("Attr of the replaced file", err, nfs3.ErrStale)
	if got := e.read(f, 100, 0); string(got) != "content" {
		e.Errorf("content %q", got)
	}
	e.ok("to itself", a.Rename("old", a, "old"))
	e.same(f, e.lookup(a, "old"))
	e.ok("directory over an empty one", root.Rename("a", root, "b"))
	e.missing(root, "a")
	e.same(a, e.lookup(root, "b"))
	e.same(f, e.lookup(a, "old"))
	_, err = b.Attr()
	e.want("Attr of the replaced directory", err, nfs3.ErrStale)
}

// testRenameHandles: when a directory is renamed, the handles below it stay valid.
func testRenameHandles(e *env) {
	root := e.fs.Root()
	a, to := e.mkdir(root, "a"), e.mkdir(root, "to")
	sub := e.mkdir(a, "sub")
	f := e.create(sub, "f")
	e.write(f, []byte("one"), 0)
	e.ok("Rename", root.Rename("a", to, "moved"))
	for name, n := range map[string]backend.Node{"a": a, "sub": sub, "f": f} {
		r := e.resolve(n)
		e.same(r, n)
		e.attr(r)
		_ = name
	}
	e.write(e.resolve(f), []byte("two"), 0)
	if got := e.read(f, 10, 0); string(got) != "two" {
		e.Errorf("content %q", got)
	}
	e.same(e.create(e.resolve(sub), "new"), e.lookup(e.lookup(e.lookup(to, "moved"), "sub"), "new"))
	e.same(to, e.lookup(e.resolve(a), ".."))
	// The old name can be used again, for another directory.
	again := e.mkdir(root, "a")
	if string(again.AppendHandle(nil)) == string(a.AppendHandle(nil)) {
		e.Error("two directories have the same handle")
	}
	e.missing(again, "sub")
}

func testRenameErrors(e *env) {
	root := e.fs.Root()
	d := e.mkdir(root, "d")
	sub := e.mkdir(d, "sub")
	e.create(root, "f")
	full := e.mkdir(root, "full")
	e.create(full, "x")
	for _, c := range []struct {
		what string
		err  error
		want nfs3.Status
	}{
		{"nothing", root.Rename("x", root, "y"), nfs3.ErrNoEnt},
		{"file over directory", root.Rename("f", root, "d"), nfs3.ErrExist},
		{"directory over file", root.Rename("d", root, "f"), nfs3.ErrExist},
		{"over a full directory", root.Rename("d", root, "full"), nfs3.ErrNotEmpty},
		{"into itself", root.Rename("d", d, "in"), nfs3.ErrInval},
		{"into its child", root.Rename("d", sub, "in"), nfs3.ErrInval},
		{"to another file system", root.Rename("f", e.o.New(e.T).Root(), "f"), nfs3.ErrXDev},
	} {
		e.want(c.what, c.err, c.want)
	}
	for _, name := range []string{"d", "f", "full"} {
		e.lookup(root, name)
	}
}

func testLink(e *env) {
	if e.o.NoLinks {
		e.Log("skipped: here a file is not known to be the same under two names")
		return
	}
	root := e.fs.Root()
	d := e.mkdir(root, "d")
	f := e.create(root, "f")
	e.ok("Link", d.Link(f, "g"))
	e.same(f, e.lookup(d, "g"))
	if a := e.attr(f); a.Nlink != 2 {
		e.Errorf("%d links", a.Nlink)
	}
	e.want("Link to a taken name", d.Link(f, "g"), nfs3.ErrExist)
	e.want("Link of a directory", root.Link(d, "x"), nfs3.ErrInval)
	e.ok("Rename to its other name", root.Rename("f", d, "g"))
	e.same(f, e.lookup(root, "f"))
	e.write(f, []byte("shared"), 0)
	e.ok("Remove", root.Remove("f", false))
	if a := e.attr(f); a.Nlink != 1 || a.Size != 6 {
		e.Errorf("after Remove of one name: %+v", a)
	}
	e.same(f, e.resolve(f))
	e.ok("Remove", d.Remove("g", false))
	_, err := f.Attr()
	e.want("Attr", err, nfs3.ErrStale)
	e.want("Link of a removed file", root.Link(f, "h"), nfs3.ErrStale)
}

func testNames(e *env) {
	root := e.fs.Root()
	in := initOf(0o600)
	for name, want := range map[string]nfs3.Status{
		"": nfs3.ErrAcces, "a/b": nfs3.ErrAcces, "/": nfs3.ErrAcces, "a\x00b": nfs3.ErrAcces,
		"../x": nfs3.ErrAcces, strings.Repeat("n", 256): nfs3.ErrNameTooLong,
	} {
		_, _, err := root.Lookup(name)
		e.want("Lookup", err, want)
		_, _, err = root.Create(name, in)
		e.want("Create", err, want)
		_, _, err = root.Create(name, typed(nfs3.TypeDir, in))
		e.want("Mkdir", err, want)
		_, _, err = root.Create(name, linkTo("t"))
		e.want("Symlink", err, want)
		e.want("Remove", root.Remove(name, false), want)
		e.want("Rmdir", root.Remove(name, true), want)
		e.create(root, "f")
		e.want("Rename", root.Rename("f", root, name), want)
		e.want("Rename", root.Rename(name, root, "f"), want)
		e.ok("Remove", root.Remove("f", false))
	}
	for _, name := range []string{
		strings.Repeat("n", 255), " ", "\\", "...", "-rf", "Ünïcødé", "a:b", "new\nline",
	} {
		e.same(e.create(root, name), e.lookup(root, name))
		e.ok("Remove", root.Remove(name, false))
	}
	for _, dots := range []string{".", ".."} {
		if _, _, err := root.Create(dots, in); !errors.Is(err, nfs3.ErrExist) {
			e.Errorf("Create %q: %v", dots, err)
		}
		if root.Remove(dots, true) == nil || root.Remove(dots, false) == nil || root.Rename(dots, root, "x") == nil {
			e.Errorf("%q was removed", dots)
		}
	}
}

// testStale: a removed file stays gone, even if a new file gets its inode number.
func testStale(e *env) {
	root := e.fs.Root()
	d := e.mkdir(root, "d")
	f := e.create(d, "f")
	e.write(f, []byte("x"), 0)
	fh, dh := f.AppendHandle(nil), d.AppendHandle(nil)
	e.ok("Remove", d.Remove("f", false))
	e.ok("Rmdir", root.Remove("d", true))
	for i := range 20 {
		e.create(root, string(rune('a'+i)))
	}
	for _, h := range [][]byte{fh, dh} {
		n, err := e.fs.Resolve(nil, h)
		if err == nil {
			_, err = n.Attr()
		}
		e.want("handle of a removed file", err, nfs3.ErrStale)
	}
	_, err := f.Write([]byte("y"), 0, nfs3.Unstable)
	e.want("Write", err, nfs3.ErrStale)
	_, err = f.Read(make([]byte, 1), 0)
	e.want("Read", err, nfs3.ErrStale)
	e.want("SetAttr", f.SetAttr(&nfs3.SetAttr{SetMode: true, Mode: 0o600}), nfs3.ErrStale)
	_, _, err = d.Create("x", initOf(0o600))
	e.want("Create", err, nfs3.ErrStale)
	_, _, err = d.ReadDir(0, nfs3.CookieVerf{}, true, func(*nfs3.DirPlusEntry) bool { return true })
	e.want("ReadDir", err, nfs3.ErrStale)
}

func testReopen(e *env) {
	if e.o.Reopen == nil {
		return
	}
	d := e.mkdir(e.fs.Root(), "d")
	f := e.create(e.mkdir(d, "sub"), "f")
	e.write(f, []byte("kept"), 0)
	h, hd := f.AppendHandle(nil), d.AppendHandle(nil)
	e.ok("Rename", e.fs.Root().Rename("d", e.fs.Root(), "e"))
	e.fs = e.o.Reopen(e.T, e.fs)
	n, err := e.fs.Resolve(nil, h)
	e.ok("Resolve", err)
	if got := e.read(n, 10, 0); string(got) != "kept" {
		e.Errorf("content %q", got)
	}
	dir, err := e.fs.Resolve(nil, hd)
	e.ok("Resolve", err)
	e.same(n, e.lookup(e.lookup(dir, "sub"), "f"))
}
