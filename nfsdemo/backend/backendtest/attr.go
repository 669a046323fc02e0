package backendtest

import (
	"math"

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
