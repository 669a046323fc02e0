package pushwrite_test

import (
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/internal/pushfile"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// TestWrite: plain clients see everything that was acknowledged, whatever procedure they use.
func TestWrite(t *testing.T) {
	w := newWorld(t, nil)
	p, c := w.plain(0), w.pusher("log", 0)
	h := p.create("f", 0o644)
	l := c.lease(h)
	if again := c.lease(h); again != l {
		t.Errorf("opened again: lease %d, then %d", l, again)
	}
	c.wrote(l, 0, "hello world")
	p.has(h, "hello world")
	c.wrote(l, 6, "there, and more")
	if n, st := p.size(h); n != 21 || st != nfs3.OK {
		t.Error("getattr:", n, st)
	}
	c.wrote(l, 21, "!")
	if r := nfs[nfs3.LookupRes](p, nfs3.ProcLookup, &nfs3.DirOpArgs{Dir: p.root(), Name: "f"}); r.Attr.Attr.Size != 22 {
		t.Error("lookup:", r.Attr.Attr.Size)
	}
	c.wrote(l, 22, "!")
	r := nfs[nfs3.ReadDirPlusRes](p, nfs3.ProcReadDirPlus, &nfs3.ReadDirPlusArgs{Dir: p.root(), DirCount: 8192, MaxCount: 8192})
	for _, e := range r.Entries {
		if e.Name == "f" && e.Attr.Attr.Size != 23 {
			t.Error("readdirplus:", e.Attr.Attr.Size)
		}
	}
	if st := p.commit(h); st != nfs3.OK {
		t.Error("commit:", st)
	}
	if st := c.status(); st.State.Applied != 4 || st.State.Error != nfs3.OK {
		t.Errorf("%+v", st)
	}
	if st := c.giveBack(l); st != pushfile.StatusOK {
		t.Error("return:", st)
	}
	until(t, "the lease is over", w.pw.Idle)
	p.has(h, "hello there, and more!!")
}

// TestRecall: a change by another client ends the lease first, and sees everything acknowledged.
func TestRecall(t *testing.T) {
	for name, change := range map[string]func(p *plain, h nfs3.FileHandle) nfs3.Status{
		"write":    func(p *plain, h nfs3.FileHandle) nfs3.Status { return p.write(h, 2, "XY") },
		"truncate": func(p *plain, h nfs3.FileHandle) nfs3.Status { return p.truncate(h, 3) },
		"create": func(p *plain, _ nfs3.FileHandle) nfs3.Status {
			return nfs[nfs3.CreateRes](p, nfs3.ProcCreate, &nfs3.CreateArgs{
				Where: nfs3.DirOpArgs{Dir: p.root(), Name: "f"}, Mode: nfs3.Unchecked, Attr: nfs3.SetAttr{SetSize: true},
			}).Status
		},
		"remove": func(p *plain, _ nfs3.FileHandle) nfs3.Status { return p.remove("f") },
		"rename": func(p *plain, _ nfs3.FileHandle) nfs3.Status { p.create("g", 0o644); return p.rename("g", "f") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			p, c := w.plain(0), w.pusher("log", 0)
			h := p.create("f", 0o644)
			l := c.lease(h)
			c.answers(func(a *pushfile.RecallArgs) pushfile.Status {
				c.wrote(a.Lease, 4, "efg") // on its way when the recall comes
				return pushfile.StatusOK
			})
			c.wrote(l, 0, "abcd")
			if st := change(p, h); st != nfs3.OK {
				t.Fatal(st)
			}
			if c.recalled[l] != 1 {
				t.Error("recalled:", c.recalled)
			}
			switch name {
			case "write":
				p.has(h, "abXYefg")
			case "truncate":
				p.has(h, "abc")
			case "create":
				p.has(h, "")
			default:
				if _, st := p.read(h); st != nfs3.ErrStale {
					t.Error("the file still exists:", st)
				}
			}
			if w.pw.Stats().Fences != 0 || !w.pw.Idle() {
				t.Errorf("%+v", w.pw.Stats())
			}
			if name != "remove" && name != "rename" {
				c.wrote(c.lease(h), 0, "Z") // it may write again
			}
		})
	}
}
