package backendtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

func testAttr(e *env) {
	root := e.fs.Root()
	f := e.create(root, "f")
	before := e.attr(f)
	e.ok("chmod", f.SetAttr(&nfs3.SetAttr{SetMode: true, Mode: 0o4711}))
	a := e.attr(f)
	if a.Mode != 0o4711 || a.Type != nfs3.TypeReg {
		e.Errorf("mode %o", a.Mode)
	}
	if a.Ctime == before.Ctime {
		e.Error("ctime did not change")
	}
	at, mt := nfs3.Time{Sec: 1, Nsec: 2}, nfs3.Time{Sec: 4000000000 - 1<<31, Nsec: 999999999}
	e.ok("utimes", f.SetAttr(&nfs3.SetAttr{
		AtimeHow: nfs3.ClientTime, MtimeHow: nfs3.ClientTime, Atime: at, Mtime: mt,
	}))
	if a := e.attr(f); a.Atime != at || a.Mtime != mt {
		e.Errorf("times %v %v", a.Atime, a.Mtime)
	}
	e.ok("atime", f.SetAttr(&nfs3.SetAttr{AtimeHow: nfs3.ServerTime}))
	if a := e.attr(f); a.Atime.Sec < before.Ctime.Sec || a.Mtime != mt {
		e.Errorf("times %v %v", a.Atime, a.Mtime)
	}
	// Invalid nanoseconds must not have a special meaning to the system.
	e.ok("wild", f.SetAttr(&nfs3.SetAttr{
		MtimeHow: nfs3.ClientTime, Mtime: nfs3.Time{Sec: 7, Nsec: math.MaxUint32},
	}))
	d := e.mkdir(root, "d")
	e.ok("chmod of a directory", d.SetAttr(&nfs3.SetAttr{SetMode: true, Mode: 0o1777}))
	if a := e.attr(d); a.Mode != 0o1777 {
		e.Errorf("mode %o", a.Mode)
	}
	e.ok("chmod of the root", root.SetAttr(&nfs3.SetAttr{SetMode: true, Mode: 0o755}))
	if e.fs.Info().Owners {
		e.ok("chown", f.SetAttr(&nfs3.SetAttr{SetUID: true, UID: 77, SetGID: true, GID: 88}))
		if a := e.attr(f); a.UID != 77 || a.GID != 88 {
			e.Errorf("owner %d:%d", a.UID, a.GID)
		}
	}
	testLinkAttr(e)
}

// testLinkAttr: a link has attributes of its own, not those of its target.
func testLinkAttr(e *env) {
	root := e.fs.Root()
	target := e.create(root, "target")
	was := e.attr(target)
	l, _, err := root.Create("l", linkTo("target"))
	e.ok("Symlink", err)
	set := nfs3.SetAttr{MtimeHow: nfs3.ClientTime, Mtime: nfs3.Time{Sec: 42}}
	if err := l.SetAttr(&set); err == nil {
		if a := e.attr(l); a.Mtime.Sec != 42 {
			e.Errorf("mtime of the link: %v", a.Mtime)
		}
	}
	_ = l.SetAttr(&nfs3.SetAttr{SetMode: true, Mode: 0o111}) // may be refused
	e.want("truncate of a link", l.SetAttr(&nfs3.SetAttr{SetSize: true}), nfs3.ErrInval)
	if a := e.attr(target); a.Mode != was.Mode || a.Mtime != was.Mtime || a.Size != was.Size {
		e.Errorf("the target changed: %+v", a)
	}
}

func testTruncate(e *env) {
	root := e.fs.Root()
	f := e.create(root, "f")
	e.write(f, []byte("hello, world"), 0)
	size := func(n uint64) {
		e.Helper()
		e.ok("truncate", f.SetAttr(&nfs3.SetAttr{SetSize: true, Size: n}))
		if a := e.attr(f); a.Size != n {
			e.Fatalf("size %d, want %d", a.Size, n)
		}
	}
	size(5)
	size(8)
	if got := e.read(f, 100, 0); string(got) != "hello\x00\x00\x00" {
		e.Errorf("content %q", got)
	}
	size(0)
	if got := e.read(f, 100, 0); len(got) != 0 {
		e.Errorf("content %q", got)
	}
	size(1 << 40) // sparse
	if got := e.read(f, 4, 1<<39); string(got) != "\x00\x00\x00\x00" {
		e.Errorf("content %q", got)
	}
	e.want("2^63", f.SetAttr(&nfs3.SetAttr{SetSize: true, Size: 1 << 63}), nfs3.ErrFBig)
	e.want("directory", root.SetAttr(&nfs3.SetAttr{SetSize: true}), nfs3.ErrIsDir)
	// The size and a time at once: the time stays.
	e.ok("both", f.SetAttr(&nfs3.SetAttr{
		SetSize: true, Size: 3, MtimeHow: nfs3.ClientTime, Mtime: nfs3.Time{Sec: 9},
	}))
	if a := e.attr(f); a.Size != 3 || a.Mtime.Sec != 9 {
		e.Errorf("%+v", a)
	}
}

func testRoot(e *env) {
	root := e.fs.Root()
	a := e.attr(root)
	if a.Type != nfs3.TypeDir || a.Nlink < 2 || a.FileID == 0 {
		e.Errorf("root: %+v", a)
	}
	e.same(root, e.lookup(root, "."))
	e.same(root, e.lookup(root, ".."))
	u, err := e.fs.Usage()
	e.ok("Usage", err)
	if u.TotalBytes == 0 || u.FreeBytes > u.TotalBytes || u.AvailBytes > u.TotalBytes {
		e.Errorf("usage: %+v", u)
	}
	if i := e.fs.Info(); i.NameMax == 0 || i.LinkMax == 0 || i.MaxFileSize == 0 {
		e.Errorf("info: %+v", i)
	}
}

func testHandles(e *env) {
	f := e.create(e.fs.Root(), "f")
	h := f.AppendHandle(nil)
	if len(h) == 0 || len(h) > backend.MaxHandle {
		e.Fatalf("handle of %d octets", len(h))
	}
	e.same(f, e.resolve(f))
	e.same(e.fs.Root(), e.resolve(e.fs.Root()))
	for n := range len(h) {
		_, err := e.fs.Resolve(nil, h[:n])
		e.noHandle("Resolve of a short handle", err)
	}
	_, err := e.fs.Resolve(nil, append(h, 0))
	e.noHandle("Resolve of a long handle", err)
	for i := range h {
		bad := append([]byte(nil), h...)
		bad[i] ^= 0x55
		// Another file or an error, but never f itself.
		n, err := e.fs.Resolve(nil, bad)
		switch {
		case err == nil:
			if got := n.AppendHandle(nil); string(got) == string(h) {
				e.Errorf("a handle with a wrong octet %d resolves to the same file", i)
			}
		case errors.Is(err, nfs3.ErrBadHandle), errors.Is(err, nfs3.ErrStale), errors.Is(err, nfs3.ErrJukebox):
		default:
			e.Errorf("Resolve of a wrong handle: %v", err)
		}
	}
}

// noHandle demands an error for what no backend has made. One that seals its handles cannot tell a cut one
// from an old one.
func (e *env) noHandle(what string, err error) {
	e.Helper()
	if !errors.Is(err, nfs3.ErrBadHandle) && !errors.Is(err, nfs3.ErrStale) {
		e.Errorf("%s: %v", what, err)
	}
}

func testCreate(e *env) {
	root := e.fs.Root()
	in := initOf(0o640)
	in.Attr.SetSize, in.Attr.Size = true, 5
	f, a, err := root.Create("f", in)
	e.ok("Create", err)
	if a.Type != nfs3.TypeReg || a.Mode != 0o640 || a.Size != 5 || a.Nlink != 1 {
		e.Errorf("new file: %+v", a)
	}
	if got := e.read(f, 10, 0); string(got) != "\x00\x00\x00\x00\x00" {
		e.Errorf("content %q", got)
	}
	_, _, err = root.Create("f", initOf(0o600))
	e.want("Create again", err, nfs3.ErrExist)
	if n := e.lookup(root, "f"); e.attr(n).Size != 5 {
		e.Error("the second Create changed the file")
	}
	if e.fs.Info().Owners {
		in := initOf(0o600)
		in.Attr.SetUID, in.Attr.UID, in.Attr.SetGID, in.Attr.GID = true, 1234, true, 567
		_, a, err := root.Create("owned", in)
		e.ok("Create", err)
		if a.UID != 1234 || a.GID != 567 {
			e.Errorf("owner %d:%d", a.UID, a.GID)
		}
	}
	in = initOf(0o600)
	in.Attr.MtimeHow, in.Attr.Mtime = nfs3.ClientTime, nfs3.Time{Sec: 1000, Nsec: 5}
	_, a, err = root.Create("timed", in)
	e.ok("Create", err)
	if a.Mtime != in.Attr.Mtime {
		e.Errorf("mtime %v", a.Mtime)
	}
	in.Attr.SetSize, in.Attr.Size = true, 1<<63
	_, _, err = root.Create("huge", in)
	e.want("Create of 2^63 octets", err, nfs3.ErrFBig)
	e.missing(root, "huge")
}

func testExclusive(e *env) {
	root := e.fs.Root()
	v := nfs3.CreateVerf{0xf1, 2, 3, 4, 0xf5, 6, 7, 8}
	in := initOf(0o600)
	in.Verf = &v
	f, _, err := root.Create("x", in)
	e.ok("Create", err)
	again := func(name string, v nfs3.CreateVerf, want nfs3.Status) {
		e.Helper()
		in := initOf(0o600)
		in.Verf = &v
		n, a, err := root.Create(name, in)
		if want != nfs3.OK {
			e.want("Create again", err, want)
			return
		}
		e.ok("Create again", err)
		if e.same(n, f); a.Type != nfs3.TypeReg || a.Size != 0 {
			e.Errorf("attributes %+v", a)
		}
	}
	again("x", v, nfs3.OK)
	again("x", nfs3.CreateVerf{1, 2, 3, 4, 5, 6, 7, 8}, nfs3.ErrExist)
	again("x", nfs3.CreateVerf{}, nfs3.ErrExist)
	e.create(root, "plain")
	again("plain", v, nfs3.ErrExist)
	e.mkdir(root, "dir")
	again("dir", v, nfs3.ErrExist)
	set := nfs3.SetAttr{AtimeHow: nfs3.ServerTime, MtimeHow: nfs3.ServerTime}
	e.ok("SetAttr", f.SetAttr(&set))
	again("x", v, nfs3.ErrExist)
}

func testMkdir(e *env) {
	root := e.fs.Root()
	links := e.attr(root).Nlink
	d, a, err := root.Create("d", typed(nfs3.TypeDir, initOf(0o2750)))
	e.ok("Mkdir", err)
	if a.Type != nfs3.TypeDir || a.Mode != 0o2750 || a.Nlink < 2 {
		e.Errorf("new directory: %+v", a)
	}
	if got := e.attr(root).Nlink; !e.o.NoLinks && got != links+1 && got > 1 {
		e.Errorf("links of the parent: %d, before Mkdir %d", got, links)
	}
	e.same(root, e.lookup(d, ".."))
	e.same(d, e.lookup(d, "."))
	_, _, err = root.Create("d", typed(nfs3.TypeDir, initOf(0o755)))
	e.want("Mkdir again", err, nfs3.ErrExist)
	e.create(root, "f")
	_, _, err = root.Create("f", typed(nfs3.TypeDir, initOf(0o755)))
	e.want("Mkdir over a file", err, nfs3.ErrExist)
	e.same(e.create(d, "f"), e.lookup(e.lookup(root, "d"), "f"))
}

func testSymlink(e *env) {
	root := e.fs.Root()
	for name, target := range map[string]string{
		"l": "../../etc/passwd", "abs": "/etc", "dangling": "no/such", "self": "self",
		"long": string(make255('t')) + "/" + string(make255('u')),
	} {
		l, a, err := root.Create(name, linkTo(target))
		e.ok("Symlink", err)
		if a.Type != nfs3.TypeLnk || a.Size != uint64(len(target)) {
			e.Errorf("new link: %+v", a)
		}
		got, err := l.ReadLink()
		e.ok("ReadLink", err)
		if got != target {
			e.Errorf("target %q, want %q", got, target)
		}
		// No operation follows the link.
		_, _, err = l.Lookup("x")
		e.want("Lookup in a link", err, nfs3.ErrNotDir)
		_, err = l.Read(make([]byte, 1), 0)
		e.want("Read of a link", err, nfs3.ErrInval)
		if got := e.attr(e.lookup(root, name)); got.Type != nfs3.TypeLnk {
			e.Errorf("Lookup followed the link: %+v", got)
		}
	}
	_, err := e.create(root, "f").ReadLink()
	e.want("ReadLink of a file", err, nfs3.ErrInval)
	_, err = root.ReadLink()
	e.want("ReadLink of a directory", err, nfs3.ErrInval)
	_, _, err = root.Create("l", linkTo("x"))
	e.want("Symlink again", err, nfs3.ErrExist)
}

func make255(c byte) []byte {
	b := make([]byte, 255)
	for i := range b {
		b[i] = c
	}
	return b
}

func testMknod(e *env) {
	root := e.fs.Root()
	for _, t := range []nfs3.FileType{nfs3.TypeFIFO, nfs3.TypeSock} {
		n, a, err := root.Create(t.String(), typed(t, initOf(0o620)))
		if e.o.NoSpecial {
			e.want("Mknod", err, nfs3.ErrNotSupp)
			continue
		}
		e.ok("Mknod", err)
		if a.Type != t || a.Mode != 0o620 {
			e.Errorf("new %v: %+v", t, a)
		}
		// Read must not wait for a writer.
		_, err = n.Read(make([]byte, 1), 0)
		e.want("Read", err, nfs3.ErrInval)
		_, err = n.Write([]byte("x"), 0, nfs3.Unstable)
		e.want("Write", err, nfs3.ErrInval)
		e.ok("SetAttr", n.SetAttr(&nfs3.SetAttr{SetMode: true, Mode: 0o600}))
		e.ok("Remove", root.Remove(t.String(), false))
	}
}

func testNotDir(e *env) {
	root := e.fs.Root()
	f := e.create(root, "f")
	in := initOf(0o600)
	calls := map[string]func() error{
		"Lookup":  func() error { _, _, err := f.Lookup("x"); return err },
		"dot":     func() error { _, _, err := f.Lookup("."); return err },
		"Create":  func() error { _, _, err := f.Create("x", in); return err },
		"Mkdir":   func() error { _, _, err := f.Create("x", typed(nfs3.TypeDir, in)); return err },
		"Symlink": func() error { _, _, err := f.Create("x", linkTo("y")); return err },
		"Mknod":   func() error { _, _, err := f.Create("x", typed(nfs3.TypeFIFO, in)); return err },
		"Remove":  func() error { return f.Remove("x", false) },
		"Rmdir":   func() error { return f.Remove("x", true) },
		"Rename":  func() error { return f.Rename("x", root, "y") },
		"to":      func() error { return root.Rename("f", f, "y") },
		"Link":    func() error { return f.Link(f, "x") },
		"ReadDir": func() error {
			_, _, err := f.ReadDir(0, nfs3.CookieVerf{}, false, func(*nfs3.DirPlusEntry) bool { return true })
			return err
		},
	}
	for name, call := range calls {
		e.want(name, call(), nfs3.ErrNotDir)
	}
	_, err := root.Read(make([]byte, 1), 0)
	e.want("Read of a directory", err, nfs3.ErrInval)
	_, err = root.Write([]byte("x"), 0, nfs3.Unstable)
	e.want("Write of a directory", err, nfs3.ErrInval)
	_, err = root.Commit(0, 0)
	e.want("Commit of a directory", err, nfs3.ErrInval)
}

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

func testData(e *env) {
	f := e.create(e.fs.Root(), "f")
	for _, how := range []nfs3.StableHow{nfs3.Unstable, nfs3.DataSync, nfs3.FileSync} {
		r, err := f.Write([]byte("abc"), 0, how)
		e.ok("Write", err)
		if r.N != 3 || r.Committed < how {
			e.Errorf("%v: %+v", how, r)
		}
	}
	e.write(f, []byte("xyz"), 1<<20)
	if a := e.attr(f); a.Size != 1<<20+3 {
		e.Errorf("size %d", a.Size)
	}
	if got := e.read(f, 6, 0); string(got) != "abc\x00\x00\x00" {
		e.Errorf("content %q", got)
	}
	if got := e.read(f, 100, 1<<20+1); string(got) != "yz" {
		e.Errorf("content %q", got)
	}
	for _, off := range []uint64{1<<20 + 3, 1 << 40, 1 << 63, ^uint64(0)} {
		if got := e.read(f, 10, off); len(got) != 0 {
			e.Errorf("at %d: %q", off, got)
		}
	}
	r, err := f.Write(nil, 1<<30, nfs3.Unstable)
	e.ok("Write of nothing", err)
	if r.N != 0 || e.attr(f).Size != 1<<20+3 {
		e.Errorf("Write of nothing: %+v, size %d", r, e.attr(f).Size)
	}
	for _, off := range []uint64{1<<63 - 1, 1 << 63, ^uint64(0)} {
		_, err := f.Write([]byte("ab"), off, nfs3.Unstable)
		e.want("Write beyond 2^63", err, nfs3.ErrFBig)
	}
}

// testDataModel compares reads, writes and truncations with those of a slice.
func testDataModel(e *env) {
	const seed, size = 7, 200_000
	rng := rand.New(rand.NewPCG(seed, seed))
	f := e.create(e.fs.Root(), "f")
	var model []byte
	for i := range 300 {
		off, n := rng.IntN(size), rng.IntN(40_000)
		switch rng.IntN(5) {
		case 0, 1:
			p := make([]byte, n)
			for j := range p {
				p[j] = byte(rng.Uint32())
			}
			e.write(f, p, uint64(off))
			if n > 0 {
				model = append(model, make([]byte, max(0, off+n-len(model)))...)
				copy(model[off:], p)
			}
		case 2:
			e.ok("truncate", f.SetAttr(&nfs3.SetAttr{SetSize: true, Size: uint64(off)}))
			model = append(model, make([]byte, max(0, off-len(model)))...)[:off]
		default:
			want := model[min(off, len(model)):min(off+n, len(model))]
			if got := e.read(f, n, uint64(off)); !bytes.Equal(got, want) {
				e.Fatalf("seed %d, step %d: %d octets at %d differ", seed, i, n, off)
			}
		}
		if a := e.attr(f); a.Size != uint64(len(model)) {
			e.Fatalf("seed %d, step %d: size %d, want %d", seed, i, a.Size, len(model))
		}
	}
}

func testCommit(e *env) {
	f := e.create(e.fs.Root(), "f")
	r, err := f.Write([]byte("abc"), 0, nfs3.Unstable)
	e.ok("Write", err)
	for _, c := range []struct {
		off uint64
		n   uint32
	}{{0, 0}, {0, 3}, {1, 1}, {1 << 63, 0}, {^uint64(0), 7}} {
		v, err := f.Commit(c.off, c.n)
		e.ok("Commit", err)
		if v != r.Verf {
			e.Errorf("Commit returned verifier %x, Write %x", v, r.Verf)
		}
	}
	g := e.create(e.fs.Root(), "g")
	r2, err := g.Write([]byte("abc"), 0, nfs3.FileSync)
	e.ok("Write", err)
	if r2.Verf != r.Verf {
		e.Errorf("the verifier changed from %x to %x without a restart", r.Verf, r2.Verf)
	}
}

// locker is what the suite asks of a backend.Locker.
type locker interface {
	TestLock(ctx context.Context, handle []byte, l *backend.Lock) error
	SetLock(ctx context.Context, handle []byte, l *backend.Lock, wait bool) error
	Unlock(ctx context.Context, handle []byte, l *backend.Lock) error
	ReleaseLocks(ctx context.Context, client string) error
}

// lockRig is a Locker under test with two files.
type lockRig struct {
	*testing.T
	k locker
	f []byte
}

func (r *lockRig) lock(client string, id, start, end uint64, exclusive bool) *backend.Lock {
	return &backend.Lock{Owner: backend.LockOwner{Client: client, ID: id}, Start: start, End: end, Exclusive: exclusive}
}

// set expects that a lock can, or cannot, be had at once; TestLock must say the same before.
func (r *lockRig) set(l *backend.Lock, want bool) {
	r.Helper()
	_, locked := errors.AsType[*backend.LockedError](r.k.TestLock(r.Context(), r.f, l))
	if locked == want {
		r.Errorf("TestLock of %+v says locked: %v", *l, locked)
	}
	err := r.k.SetLock(r.Context(), r.f, l, false)
	var e *backend.LockedError
	switch {
	case want && err != nil:
		r.Errorf("SetLock of %+v: %v", *l, err)
	case !want && !errors.As(err, &e):
		r.Errorf("SetLock of %+v: %v, want a *backend.LockedError", *l, err)
	case !want && !e.Holder.Conflicts(l):
		r.Errorf("%+v is not in the way of %+v", e.Holder, *l)
	}
}

func (r *lockRig) unlock(l *backend.Lock) {
	r.Helper()
	if err := r.k.Unlock(r.Context(), r.f, l); err != nil {
		r.Errorf("Unlock of %+v: %v", *l, err)
	}
}

// begin waits for a lock that cannot be had yet.
func (r *lockRig) begin(ctx context.Context, l *backend.Lock) chan error {
	r.Helper()
	ch := make(chan error, 1)
	go func() { ch <- r.k.SetLock(ctx, r.f, l, true) }()
	select {
	case err := <-ch:
		r.Fatalf("%+v did not wait: %v", *l, err)
	case <-time.After(50 * time.Millisecond):
	}
	return ch
}

func (r *lockRig) end(ch chan error) error {
	r.Helper()
	select {
	case err := <-ch:
		return err
	case <-time.After(time.Minute):
		r.Fatal("a wait did not end within a minute")
		return nil
	}
}

// RunLocker runs the suite of a Locker, without HoldsLock, that holds no locks yet. f and g are handles of two regular files.
func RunLocker(t *testing.T, k locker, f, g []byte) {
	r := &lockRig{T: t, k: k, f: f}
	other := &lockRig{T: t, k: k, f: g}
	end := uint64(backend.LockEnd)

	r.set(r.lock("a", 1, 10, 19, true), true)
	r.set(r.lock("a", 1, 10, 19, true), true) // his own is not in his way
	r.set(r.lock("a", 2, 19, 19, false), false)
	r.set(r.lock("b", 1, 0, 10, true), false)
	r.set(r.lock("b", 1, 20, end, true), true)
	other.set(r.lock("b", 1, 0, end, true), true)

	r.unlock(r.lock("a", 1, 13, 15, false)) // from the middle
	r.set(r.lock("b", 1, 13, 15, true), true)
	r.set(r.lock("b", 1, 12, 12, true), false)
	r.set(r.lock("b", 1, 16, 16, true), false)
	r.set(r.lock("a", 1, 16, 17, false), true) // in place of the exclusive one
	r.set(r.lock("b", 1, 16, 17, false), true)
	r.set(r.lock("b", 1, 18, 18, false), false)
	r.set(r.lock("a", 1, 16, 17, true), false)

	want := r.lock("c", 1, 10, 12, true)
	ctx, cancel := context.WithCancel(t.Context())
	ch := r.begin(ctx, want)
	cancel()
	if err := r.end(ch); err == nil {
		t.Error("a wait ended with the lock, and not with its context")
	}
	ch = r.begin(t.Context(), want)
	r.unlock(r.lock("a", 1, 0, end, false))
	if err := r.end(ch); err != nil {
		t.Error(err)
	}
	r.set(r.lock("d", 1, 11, 11, false), false)

	ch = r.begin(t.Context(), r.lock("d", 1, 0, end, true))
	for _, c := range []string{"b", "c", "nobody"} {
		if err := k.ReleaseLocks(t.Context(), c); err != nil {
			t.Error(err)
		}
	}
	if err := r.end(ch); err != nil {
		t.Error(err)
	}
	other.set(r.lock("d", 1, 0, end, true), true)
	if err := k.ReleaseLocks(t.Context(), "d"); err != nil {
		t.Error(err)
	}
	r.set(r.lock("e", 1, 0, end, true), true)
	r.unlock(r.lock("e", 1, 0, end, true))
}

// list reads a directory in pages of at most page entries and returns its names without "." and
// "..". It runs between, if not nil, after every page.
func (e *env) list(d backend.Node, page int, plus bool, between func()) []string {
	e.Helper()
	var (
		names  []string
		cookie uint64
		verf   nfs3.CookieVerf
	)
	for pages := 0; ; pages++ {
		if pages > 100_000 {
			e.Fatal("the list does not end")
		}
		n := 0
		v, eof, err := d.ReadDir(cookie, verf, plus, func(x *nfs3.DirPlusEntry) bool {
			if n == page {
				return false
			}
			n++
			cookie = x.Cookie
			if x.Name != "." && x.Name != ".." {
				names = append(names, x.Name)
			}
			return true
		})
		e.ok("ReadDir", err)
		verf = v
		if eof {
			return names
		}
		if n == 0 {
			e.Fatal("an empty page that is not the end")
		}
		if between != nil {
			between()
		}
	}
}

func testReadDir(e *env) {
	root := e.fs.Root()
	if got := e.list(e.mkdir(root, "empty"), 10, true, nil); len(got) != 0 {
		e.Errorf("empty directory: %q", got)
	}
	d := e.mkdir(root, "d")
	want := []string{"a", "b", "c", "sub"}
	for _, name := range want[:3] {
		e.create(d, name)
	}
	e.mkdir(d, "sub")
	for _, page := range []int{1, 2, 3, 100} {
		got := e.list(d, page, page%2 == 0, nil)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			e.Errorf("pages of %d: %q", page, got)
		}
	}
	_, _, err := d.ReadDir(0, nfs3.CookieVerf{}, true, func(x *nfs3.DirPlusEntry) bool {
		n := e.lookup(d, x.Name)
		a := e.attr(n)
		if x.FileID != a.FileID || !x.Attr.Present || x.Attr.Attr.FileID != a.FileID {
			e.Errorf("%q: id %d, attributes %+v", x.Name, x.FileID, x.Attr)
		}
		if !x.Handle.Present || string(x.Handle.Handle) != string(n.AppendHandle(nil)) {
			e.Errorf("%q: handle %x", x.Name, x.Handle.Handle)
		}
		return true
	})
	e.ok("ReadDir", err)
	var cookie uint64
	v, _, err := d.ReadDir(0, nfs3.CookieVerf{}, false, func(x *nfs3.DirPlusEntry) bool {
		ok := cookie == 0
		cookie = x.Cookie
		return ok
	})
	e.ok("ReadDir", err)
	v[0] ^= 1
	_, _, err = d.ReadDir(cookie, v, false, func(*nfs3.DirPlusEntry) bool { return true })
	e.want("ReadDir with a wrong verifier", err, nfs3.ErrBadCookie)
}

// testReadDirChanges: names that come and go must not hide or repeat the others.
func testReadDirChanges(e *env) {
	d := e.mkdir(e.fs.Root(), "d")
	var stay []string
	for i := range 120 {
		name := fmt.Sprintf("stay%03d", i)
		stay = append(stay, name)
		e.create(d, name)
		e.create(d, fmt.Sprintf("go%03d", i))
	}
	i := 0
	got := e.list(d, 7, false, func() {
		_ = d.Remove(fmt.Sprintf("go%03d", i*3%120), false)
		if i < 50 {
			e.create(d, fmt.Sprintf("come%03d", i))
		}
		i++
	})
	seen := make(map[string]int)
	for _, name := range got {
		seen[name]++
		if seen[name] > 1 {
			e.Errorf("%q twice", name)
		}
	}
	for _, name := range stay {
		if seen[name] != 1 {
			e.Errorf("%q is missing", name)
		}
	}
}

func testBigDir(e *env) {
	n := e.o.Big
	if n == 0 {
		n = 2000
	}
	d := e.mkdir(e.fs.Root(), "big")
	// Most names are links: some file systems make those much faster than files.
	var f backend.Node
	for i := range n {
		name := fmt.Sprintf("file-%04d", i)
		if i%50 == 0 || e.o.NoLinks {
			f = e.create(d, name)
		} else {
			e.ok("Link", d.Link(f, name))
		}
	}
	for _, page := range []int{64, 5000} {
		got := e.list(d, page, page == 64, nil)
		slices.Sort(got)
		if len(got) != n || got[0] != "file-0000" || got[n-1] != fmt.Sprintf("file-%04d", n-1) || len(slices.Compact(got)) != n {
			e.Errorf("pages of %d: %d names", page, len(got))
		}
	}
	// As rm -r does: list, remove the listed names, until none is left.
	for _, name := range e.list(d, 500, false, nil) {
		e.ok("Remove", d.Remove(name, false))
	}
	e.ok("Rmdir", e.fs.Root().Remove("big", true))
}

func testDeep(e *env) {
	depth := 200
	if e.o.Paths {
		depth = 100
	}
	nodes := []backend.Node{e.fs.Root()}
	for i := range depth {
		nodes = append(nodes, e.mkdir(nodes[i], fmt.Sprintf("level-%03d-%020d", i, i)))
	}
	f := e.create(nodes[depth], "f")
	e.write(f, []byte("deep"), 0)
	if got := e.read(e.resolve(f), 10, 0); string(got) != "deep" {
		e.Errorf("content %q", got)
	}
	n := e.resolve(nodes[depth])
	for i := depth; i > 0; i-- {
		n = e.lookup(n, "..")
		e.same(n, nodes[i-1])
	}
	// A rename near the top moves everything below.
	e.ok("Rename", nodes[1].Rename(fmt.Sprintf("level-%03d-%020d", 1, 1), nodes[0], "top"))
	e.same(f, e.lookup(e.resolve(nodes[depth]), "f"))
	e.ok("Remove", nodes[depth].Remove("f", false))
}

func testConcurrent(e *env) {
	root := e.fs.Root()
	shared := e.mkdir(root, "shared")
	var wg sync.WaitGroup
	fail := func(what string, err error) {
		if err != nil {
			e.Errorf("%s: %v", what, err)
		}
	}
	for w := range 8 {
		wg.Go(func() {
			mine := fmt.Sprintf("w%d", w)
			d, _, err := root.Create(mine, typed(nfs3.TypeDir, initOf(0o755)))
			if err != nil {
				fail("Mkdir", err)
				return
			}
			for i := range 20 {
				name := fmt.Sprintf("f%d", i)
				f, _, err := d.Create(name, initOf(0o644))
				fail("Create", err)
				if err != nil {
					return
				}
				_, err = f.Write([]byte(name), 0, nfs3.Unstable)
				fail("Write", err)
				fail("Rename", d.Rename(name, shared, mine+name))
				p := make([]byte, 10)
				n, err := f.Read(p, 0)
				fail("Read", err)
				if string(p[:n]) != name {
					e.Errorf("content %q, want %q", p[:n], name)
				}
				_, _, err = shared.ReadDir(0, nfs3.CookieVerf{}, true, func(*nfs3.DirPlusEntry) bool { return true })
				fail("ReadDir", err)
				if i%2 == 0 {
					fail("Remove", shared.Remove(mine+name, false))
				}
			}
			fail("Rmdir", root.Remove(mine, true))
		})
	}
	wg.Wait()
	if got := e.list(shared, 10, true, nil); len(got) != 80 {
		e.Errorf("%d names left", len(got))
	}
	testOneWinner(e)
}

// testOneWinner: of many callers that create the same name, one succeeds.
func testOneWinner(e *env) {
	root := e.fs.Root()
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		won int
	)
	for range 8 {
		wg.Go(func() {
			_, _, err := root.Create("one", initOf(0o600))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won++
			case errors.Is(err, nfs3.ErrExist):
			default:
				e.Errorf("Create: %v", err)
			}
		})
	}
	wg.Wait()
	if won != 1 {
		e.Errorf("%d winners", won)
	}
}
