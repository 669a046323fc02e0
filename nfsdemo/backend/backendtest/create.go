package backendtest

import (
	"errors"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

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
