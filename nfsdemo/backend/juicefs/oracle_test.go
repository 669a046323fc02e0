package juicefs_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/juicefs/internal/engines"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// callers are in groups of each other.
var callers = []*caller.Identity{
	{UID: 0, GID: 0}, {UID: 1, GID: 1}, {UID: 2, GID: 2, Groups: []uint32{1}}, {UID: 3, GID: 3},
}

// TestCallers lets random callers do random things here and in memory, whose rules are compared with those of the kernel
// elsewhere: what they may do, and what they see then, is the same.
func TestCallers(t *testing.T) {
	r := newRig(t, engines.Postgres(t), "file", t.TempDir()+"/")
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			o := &oracle{T: t, rnd: rand.New(rand.NewPCG(seed, seed)), sides: [2]backend.FS{mem.New(&mem.Config{Mode: 0o777}), r.newFS(t)}}
			for i := range 150 {
				if o.step(); t.Failed() {
					t.Fatalf("seed %d, step %d", seed, i)
				}
			}
		})
	}
}

// oracle is one directory on two sides.
type oracle struct {
	*testing.T
	rnd   *rand.Rand
	sides [2]backend.FS
}

func (o *oracle) pick(list ...string) string { return list[o.rnd.IntN(len(list))] }

// node finds the path dir/name on one side, as who.
func (o *oracle) node(side int, who *caller.Identity, path ...string) backend.Node {
	n := o.sides[side].Root()
	for _, name := range path {
		if name == "" {
			continue
		}
		c, _, err := n.Lookup(name)
		if err != nil {
			return nil
		}
		n = c
	}
	return n.As(who)
}

// step does one thing on both sides.
func (o *oracle) step() {
	who := callers[o.rnd.IntN(len(callers))]
	dir, name := o.pick("", "a", "b"), o.pick("a", "b", "c", "d")
	to, other := o.pick("", "a", "b"), o.pick("a", "b", "c", "d")
	modes := []uint32{0o777, 0o755, 0o700, 0o070, 0o1777, 0o2775, 0o4755, 0o6755, 0o2644, 0o000, 0o005, 0o711}
	in := initOf(modes[o.rnd.IntN(len(modes))])
	set := o.change(modes)
	op := o.rnd.IntN(13)
	size := o.rnd.Uint64N(10)
	var got [2]string
	for side := range o.sides {
		d, target := o.node(side, who, dir), o.node(side, who, to)
		f := o.node(side, who, dir, name)
		if d == nil || target == nil || op > 6 && f == nil {
			got[side] = "nothing"
			continue
		}
		switch op {
		case 0:
			got[side] = o.made(d.Create(name, in))
		case 1:
			got[side] = o.made(d.Create(name, &backend.Init{Type: nfs3.TypeDir, Attr: in.Attr}))
		case 2:
			got[side] = o.made(d.Create(name, &backend.Init{Type: nfs3.TypeLnk, Target: "x", Attr: initOf(0o777).Attr}))
		case 3:
			got[side] = fmt.Sprint("remove ", refused(d.Remove(name, false)))
		case 4:
			got[side] = fmt.Sprint("rmdir ", refused(d.Remove(name, true)))
		case 5:
			got[side] = fmt.Sprint("rename ", refused(d.Rename(name, target, other)))
		case 6:
			got[side] = o.made(d.Lookup(name))
		case 7:
			got[side] = fmt.Sprint("link ", refused(target.Link(f, other)))
		case 8, 9:
			if a, err := f.Attr(); err == nil && a.Type == nfs3.TypeLnk {
				set.SetMode = false // links have no mode here
			}
			got[side] = fmt.Sprint("set ", refused(f.SetAttr(set)), set)
		case 10:
			a, err := f.Access(nfs3.Access(0x3f))
			got[side] = fmt.Sprint("access ", a, refused(err), " open ", refused(f.Open(false, 0, 1)), refused(f.Open(true, 0, 1)))
		case 11:
			w, err := f.Write([]byte("octets"), size, nfs3.FileSync)
			got[side] = fmt.Sprint("write ", w.N, refused(err))
		case 12:
			p := make([]byte, 100)
			n, err := f.Read(p, 0)
			got[side] = fmt.Sprintf("read %q %v; list %v", p[:n], refused(err), o.list(f))
		}
		for _, at := range [][]string{{dir}, {to}, {dir, name}, {to, other}} {
			got[side] += "\n" + o.look(side, at)
		}
	}
	if got[0] != got[1] {
		o.Errorf("uid %d: op %d of %s/%s to %s/%s, mode %o\nin memory %s\nhere      %s", who.UID, op, dir, name, to, other, in.Attr.Mode, got[0], got[1])
	}
}

// change is a random SETATTR.
func (o *oracle) change(modes []uint32) *nfs3.SetAttr {
	var s nfs3.SetAttr
	switch o.rnd.IntN(5) {
	case 0:
		s.SetMode, s.Mode = true, modes[o.rnd.IntN(len(modes))]
	case 1:
		s.SetUID, s.UID = true, o.rnd.Uint32N(4)
	case 2:
		s.SetGID, s.GID = true, o.rnd.Uint32N(4)
	case 3:
		s.SetSize, s.Size = true, o.rnd.Uint64N(20)
	case 4:
		s.MtimeHow, s.Mtime = nfs3.TimeHow(1+o.rnd.IntN(2)), nfs3.Time{Sec: 7}
	}
	return &s
}

// made says what a call has made or found.
func (o *oracle) made(n backend.Node, a nfs3.Attr, err error) string {
	if refused(err) {
		return "refused"
	}
	return describe(&a)
}

// refused does not tell why: that depends on what is looked at first.
func refused(err error) bool { return err != nil }

// look says what everybody sees.
func (o *oracle) look(side int, path []string) string {
	n := o.node(side, nil, path...)
	if n == nil {
		return "-"
	}
	a, err := n.Attr()
	if err != nil {
		return err.Error()
	}
	return describe(&a)
}

// describe leaves out what two file systems need not have in common.
func describe(a *nfs3.Attr) string {
	links, size := a.Nlink, a.Size
	if a.Type == nfs3.TypeDir {
		links, size = 0, 0
	}
	return fmt.Sprintf("%v %o %d:%d %d links, %d octets", a.Type, a.Mode, a.UID, a.GID, links, size)
}

func (o *oracle) list(n backend.Node) (names []string) {
	_, _, err := n.ReadDir(0, nfs3.CookieVerf{}, true, func(e *nfs3.DirPlusEntry) bool {
		names = append(names, fmt.Sprint(e.Name, e.Handle.Present))
		return true
	})
	slices.Sort(names)
	return append(names, fmt.Sprint(refused(err)))
}
