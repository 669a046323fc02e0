package server

import (
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/internal/once"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// making: it was done if the name, which was free, is that of a file like the one the call makes,
// born since. A crash may have come before the file had its owner, mode and times: then it gets
// them now.
func (t *settling) making(results []byte) ([]byte, once.Outcome, error) {
	f, err := t.name(0)
	if err != nil || len(t.was.ids[0]) > 0 || f.node == nil {
		return results, once.NotDone, err
	}
	ours, err := t.ours(&f)
	if err != nil || !ours {
		return results, once.NotDone, err
	}
	if n, ok := f.node.(backend.Finisher); ok {
		in := &backend.Init{Attr: t.was.set, Verf: t.verf}
		if err := n.Finish(in); err != nil {
			return results, once.Unknown, err
		}
		if f.attr, err = f.node.Attr(); err != nil {
			return results, once.Unknown, err
		}
	}
	return t.made(&f, results), once.Done, durable(f.node, f.dir.node)
}

// made appends the results of a call that has made f.
func (t *settling) made(f *found, results []byte) []byte {
	res := nfs3.NewRes{Handle: nfs3.SomeHandle(f.id), Attr: f.opt(), DirWcc: t.wcc(f.dir)}
	return res.Append(results)
}

// ours reports whether f is the file that the call makes.
func (t *settling) ours(f *found) (bool, error) {
	if f.attr.Type != t.kind || t.older(f.node) || !t.owned(f) {
		return false, nil
	}
	switch t.kind {
	case nfs3.TypeLnk:
		path, err := f.node.ReadLink()
		return path == t.path, err
	case nfs3.TypeChr, nfs3.TypeBlk:
		return f.attr.Rdev == t.rdev, nil
	default:
		return true, nil
	}
}

// owned reports whether f belongs to the right owner, or still to root, who wanted to give it away.
func (t *settling) owned(f *found) bool {
	return f.attr.UID == t.was.uid || t.was.set.SetUID && f.attr.UID == 0
}

// older reports whether a file was born before the call. Some file systems store births in seconds.
func (t *settling) older(n backend.Node) bool {
	b, ok := n.(backend.Born)
	if !ok || b.Birth() == 0 || t.was.clock == 0 {
		return false
	}
	const second = 1e9
	if b.Birth()%second == 0 {
		return b.Birth() < t.was.clock/second*second
	}
	return b.Birth() < t.was.clock
}

// opened is a CREATE of an existing name, which can have changed only the size.
func (t *settling) opened(results []byte) ([]byte, once.Outcome, error) {
	if t.how != nfs3.Unchecked || t.was.attr.Attr.Type != nfs3.TypeReg || !t.was.set.SetSize {
		return results, once.NotDone, nil
	}
	f, err := t.name(0)
	if err != nil || string(f.id) != string(t.was.ids[0]) {
		return results, once.NotDone, err
	}
	out, err := t.compare(&f.file)
	if err != nil || out != once.Done {
		return results, out, err
	}
	return t.made(&f, results), once.Done, durable(f.node)
}
