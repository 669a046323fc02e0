package server

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// Guard orders NFS calls with writes that arrive in another way and are acknowledged before they are in
// the file (package pushwrite). Files are named by their handles. It is safe for concurrent use. The call
// gets its errors: an nfs3.Status, or NFS3ERR_IO for any other.
type Guard interface {
	// Idle reports that no such writes are possible now, so that Look is not needed.
	Idle() bool
	// Look returns when all writes to the files that were acknowledged before are in the files,
	// or with the reason why that cannot be.
	Look(ctx context.Context, files ...nfs3.FileHandle) error
	// LookAll is Look for all files.
	LookAll(ctx context.Context) error
	// Change is Look, and keeps such writes away until done is called. It borrows the files.
	Change(ctx context.Context, files ...nfs3.FileHandle) (done func(), err error)
}

// guarding is what the guard has answered for an op.
type guarding struct {
	// refused: the checks before a change have failed. The leases were not recalled, so
	// nothing may be changed, whatever the checks say later.
	refused error
	// blocked: the file cannot be looked at.
	blocked error
}

// looks reports whether the results of a procedure depend on the file whose handle is first in its
// arguments.
func looks(p nfs3.Proc) bool {
	switch p {
	case nfs3.ProcGetAttr, nfs3.ProcAccess, nfs3.ProcReadLink, nfs3.ProcRead, nfs3.ProcFSStat, nfs3.ProcFSInfo,
		nfs3.ProcPathConf, nfs3.ProcCommit, nfs3.ProcLink:
		return true
	default:
		return false
	}
}

// await waits for the guard before a call runs. A change is checked before leases are recalled for it, so
// that a caller who may not change a file disturbs nobody.
func (o *op) await() (release func()) {
	g, d := o.s.cfg.Guard, xdr.NewDecoder(o.c.Args)
	release = func() {}
	switch {
	case o.proc == nfs3.ProcLink:
		var args nfs3.LinkArgs
		if args.Parse(&d) == nil {
			release = o.s.names.lock(args.Link.Dir, nil)
			o.drained(args.Handle)
		}
	case looks(o.proc):
		o.drained(d.Opaque(nfs3.MaxHandle))
	case o.proc == nfs3.ProcReadDirPlus:
		o.guard.blocked = g.LookAll(o.ctx)
	case o.proc == nfs3.ProcLookup:
		o.awaitLookup(&d)
	case o.proc == nfs3.ProcWrite:
		var args nfs3.WriteArgs
		if args.ParseHead(&d) == nil {
			release = o.awaitChange(args.Handle, func() error { return o.mayWriteTo(&args, int(args.Count)) })
		}
	case o.proc == nfs3.ProcSetAttr:
		var args nfs3.SetAttrArgs
		if args.Parse(&d) == nil {
			release = o.awaitChange(args.Handle, func() error { return o.settable(&args) })
		}
	default:
		release = o.awaitNames(&d)
	}
	return release
}

// drained is Guard.Look for a call on one file.
func (o *op) drained(h nfs3.FileHandle) {
	if !o.s.cfg.Guard.Idle() {
		o.guard.blocked = o.s.cfg.Guard.Look(o.ctx, h)
	}
}

// awaitLookup is await for LOOKUP. It ignores errors, which the call itself reports.
func (o *op) awaitLookup(d *xdr.Decoder) {
	var args nfs3.LookupArgs
	if o.s.cfg.Guard.Idle() || args.Parse(d) != nil {
		return
	}
	if dir, err := o.dir(args.Dir); err == nil {
		if h, err := o.child(&dir, args.Name); err == nil {
			o.drained(h)
		}
	}
}

// child returns the handle of a name.
func (o *op) child(dir *file, name string) (nfs3.FileHandle, error) {
	f, err := o.find(dir, name)
	if err != nil {
		return nil, err
	}
	return o.handleOf(f.node), nil
}

// awaitChange is Guard.Change for a call on one file.
func (o *op) awaitChange(h nfs3.FileHandle, check func() error) (release func()) {
	if o.guard.refused = check(); o.guard.refused != nil {
		return func() {}
	}
	done, err := o.s.cfg.Guard.Change(o.ctx, h)
	if o.guard.blocked = err; err != nil {
		return func() {}
	}
	return done
}

// victims are the files that a call on names changes or looks at.
type victims struct {
	dirs   [2]nfs3.FileHandle // whose names change; the second may be nil
	change []nfs3.FileHandle
	look   []nfs3.FileHandle
}

// nameTries limits the rounds of a call on names that come and go.
const nameTries = 8

// awaitNames is await for calls that change the file of a name. The names in the directory cannot change
// while the call runs, but they can while it waits for clients: then they are looked up again.
func (o *op) awaitNames(d *xdr.Decoder) (release func()) {
	find := o.finder(d)
	if find == nil {
		return func() {}
	}
	for range nameTries {
		v, err := find()
		if o.guard.refused = err; err != nil {
			return func() {}
		}
		done, err := o.s.cfg.Guard.Change(o.ctx, v.change...)
		if err == nil && len(v.look) > 0 {
			err = o.s.cfg.Guard.Look(o.ctx, v.look...)
		}
		if o.guard.blocked = err; err != nil {
			if done != nil {
				done()
			}
			return func() {}
		}
		unlock := o.s.names.lock(v.dirs[0], v.dirs[1])
		release = func() { unlock(); done() }
		if again, err := find(); err == nil && sameFiles(again.change, v.change) {
			return release
		}
		release()
	}
	o.guard.blocked = nfs3.ErrJukebox
	return func() {}
}

func sameFiles(a, b []nfs3.FileHandle) bool {
	return slices.EqualFunc(a, b, func(x, y nfs3.FileHandle) bool { return bytes.Equal(x, y) })
}

// finder returns a function that finds the victims of a call, or nil if it has none.
func (o *op) finder(d *xdr.Decoder) func() (victims, error) {
	switch o.proc {
	case nfs3.ProcCreate:
		var args nfs3.CreateArgs
		if args.Parse(d) == nil {
			return func() (victims, error) { return o.createVictims(&args) }
		}
	case nfs3.ProcRemove:
		var args nfs3.RemoveArgs
		if args.Parse(d) == nil {
			return func() (victims, error) { return o.removeVictims(&args) }
		}
	case nfs3.ProcRename:
		var args nfs3.RenameArgs
		if args.Parse(d) == nil {
			return func() (victims, error) { return o.renameVictims(&args) }
		}
	default:
	}
	return nil
}

// createVictims: an unchecked CREATE of an existing name may change its size; all others return its
// attributes.
func (o *op) createVictims(args *nfs3.CreateArgs) (v victims, err error) {
	v.dirs[0] = args.Where.Dir
	dir, err := o.dir(args.Where.Dir)
	if err != nil {
		return v, err
	}
	if err := o.writable(); err != nil {
		return v, err
	}
	f, err := o.find(&dir, args.Where.Name)
	switch {
	case errors.Is(err, nfs3.ErrNoEnt):
		return v, nil
	case err != nil || f.attr.Type != nfs3.TypeReg:
		return v, err
	}
	h := []nfs3.FileHandle{o.handleOf(f.node)}
	if args.Mode != nfs3.Unchecked || !args.Attr.SetSize {
		v.look = h
		return v, nil
	}
	v.change = h
	return v, f.node.Open(true)
}

// removeVictims: a file with other names stays, but nearly all files have one name.
func (o *op) removeVictims(args *nfs3.DirOpArgs) (v victims, err error) {
	v.dirs[0] = args.Dir
	dir, err := o.dir(args.Dir)
	if err == nil {
		err = o.removable(args.Name)
	}
	if err == nil {
		err = o.deletable(&dir, args.Name)
	}
	if err != nil {
		return v, err
	}
	h, err := o.child(&dir, args.Name)
	v.change = append(v.change, h)
	return v, err
}

// renameVictims: the file that had the new name goes away.
func (o *op) renameVictims(args *nfs3.RenameArgs) (v victims, err error) {
	v.dirs = [2]nfs3.FileHandle{args.From.Dir, args.To.Dir}
	from, err := o.dir(args.From.Dir)
	if err != nil {
		return v, err
	}
	to, err := o.dir(args.To.Dir)
	if err == nil {
		err = o.movable(args)
	}
	if err == nil {
		err = o.deletable(&from, args.From.Name)
	}
	if err == nil {
		err = o.deletable(&to, args.To.Name)
		if errors.Is(err, nfs3.ErrNoEnt) {
			err = nil
		}
	}
	if err != nil {
		return v, err
	}
	h, err := o.child(&to, args.To.Name)
	switch {
	case err == nil:
		v.change = append(v.change, h)
	case errors.Is(err, nfs3.ErrNoEnt):
		err = nil
	}
	return v, err
}

// deletable looks whether the caller could remove a name, so that nobody is disturbed for somebody who cannot.
// Only the call itself decides.
func (o *op) deletable(dir *file, name string) error {
	f, err := o.find(dir, name)
	if err != nil {
		return err
	}
	if got, err := dir.node.Access(nfs3.AccessDelete); err != nil || got == 0 {
		return errors.Join(err, nfs3.ErrAcces)
	}
	const sticky = 0o1000
	if dir.attr.Mode&sticky != 0 && o.who.UID != 0 && o.who.UID != f.attr.UID && o.who.UID != dir.attr.UID {
		return nfs3.ErrAcces
	}
	return nil
}

// mayWriteTo is writeTo and the backend's check of the caller.
func (o *op) mayWriteTo(args *nfs3.WriteArgs, n int) error {
	f, err := o.writeTo(args, n)
	if err == nil {
		err = f.node.Open(true)
	}
	return err
}
