package server

import (
	"context"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/internal/once"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

var _ once.Service = (*Server)(nil)

// Names returns the names that a call makes or removes, or the parts of the file that it changes
// (once.Service).
func (s *Server) Names(req *rpc.Request) []string {
	if req.Prog != nfs3.Program || req.Vers != nfs3.Version {
		return nil
	}
	cred, _, stat := s.credOf(req)
	if stat != xdr.AuthOK || cred.Anonymous && s.requireSys {
		return nil // denied
	}
	p, ok := parseSubject(nfs3.Proc(req.Proc), req.Args)
	if !ok {
		return nil
	}
	return p.names()
}

// subject is what a call is about, for all procedures.
type subject struct {
	proc  nfs3.Proc
	file  nfs3.FileHandle  // of SETATTR, WRITE and LINK
	at    []nfs3.DirOpArgs // names that it makes or removes; for RENAME the old one first
	path  string           // of SYMLINK
	attr  nfs3.SetAttr     // asked for
	how   nfs3.CreateMode  // of CREATE
	verf  *nfs3.CreateVerf // of an exclusive CREATE
	kind  nfs3.FileType    // of the new object
	rdev  nfs3.Device      // of MKNOD
	guard *nfs3.Time       // of SETATTR
	write nfs3.WriteArgs   // of WRITE, without the data
}

// parseSubject reads the arguments of a call that changes names or attributes. It returns false for other
// procedures, and for calls that are refused whatever the files are.
func parseSubject(proc nfs3.Proc, b []byte) (*subject, bool) {
	p := &subject{proc: proc}
	d := xdr.NewDecoder(b)
	var err error
	switch proc {
	case nfs3.ProcSetAttr:
		var a nfs3.SetAttrArgs
		err = a.Parse(&d)
		p.file, p.attr = a.Handle, a.Attr
		if a.Guard {
			p.guard = &a.Ctime
		}
	case nfs3.ProcWrite:
		err = p.write.ParseHead(&d)
		p.file = p.write.Handle
	case nfs3.ProcCreate:
		var a nfs3.CreateArgs
		err = a.Parse(&d)
		p.at, p.attr, p.how, p.kind = []nfs3.DirOpArgs{a.Where}, a.Attr, a.Mode, nfs3.TypeReg
		if a.Mode == nfs3.Exclusive {
			p.verf = &a.Verf
		}
	case nfs3.ProcMkdir:
		var a nfs3.MkdirArgs
		err = a.Parse(&d)
		p.at, p.attr, p.kind = []nfs3.DirOpArgs{a.Where}, a.Attr, nfs3.TypeDir
	case nfs3.ProcSymlink:
		var a nfs3.SymlinkArgs
		err = a.Parse(&d)
		p.at, p.attr, p.kind, p.path = []nfs3.DirOpArgs{a.Where}, a.Attr, nfs3.TypeLnk, a.Path
	case nfs3.ProcMknod:
		var a nfs3.MknodArgs
		err = a.Parse(&d)
		p.at, p.attr, p.kind, p.rdev = []nfs3.DirOpArgs{a.Where}, a.Attr, a.Type, a.Rdev
	case nfs3.ProcRemove, nfs3.ProcRmdir:
		var a nfs3.DirOpArgs
		err = a.Parse(&d)
		p.at = []nfs3.DirOpArgs{a}
	case nfs3.ProcRename:
		var a nfs3.RenameArgs
		err = a.Parse(&d)
		p.at = []nfs3.DirOpArgs{a.From, a.To}
	case nfs3.ProcLink:
		var a nfs3.LinkArgs
		err = a.Parse(&d)
		p.file, p.at = a.Handle, []nfs3.DirOpArgs{a.Link}
	default:
		return nil, false
	}
	return p, err == nil && p.possible()
}

// possible reports whether a file system could accept the names.
func (p *subject) possible() bool {
	for _, a := range p.at {
		if backend.IsDots(a.Name) || backend.CheckName(a.Name) != nil || len(a.Name) > nfs3.MaxName {
			return false
		}
	}
	return len(p.path) < nfs3.MaxPath
}

// A file has as many parts as WRITEs of this size can go on in it at once: each waits for a flush of the
// journal before it is executed.
const (
	fileParts = 16
	partSize  = 64 << 10
)

// parts returns names for n of the parts of the file, from the one with the number first on.
func (p *subject) parts(first, n uint64) []string {
	names := make([]string, min(n, fileParts))
	for i := range names {
		names[i] = string(p.file) + string([]byte{byte((first + uint64(i)) % fileParts)})
	}
	return names
}

// names returns the names for Names.
func (p *subject) names() []string {
	switch p.proc {
	case nfs3.ProcSetAttr:
		return p.parts(0, fileParts)
	case nfs3.ProcWrite:
		first := p.write.Offset / partSize
		return p.parts(first, (p.write.Offset%partSize+uint64(p.write.Count))/partSize+1)
	default:
	}
	words := make([]string, len(p.at))
	for i, a := range p.at {
		words[i] = string(a.Dir) + "/" + a.Name
	}
	return words
}

// Keep returns the arguments, without the data of a WRITE (once.Service).
func (s *Server) Keep(req *rpc.Request) []byte {
	if nfs3.Proc(req.Proc) != nfs3.ProcWrite {
		return req.Args
	}
	d := xdr.NewDecoder(req.Args)
	var a nfs3.WriteArgs
	_ = a.ParseHead(&d) // checked by Names
	return req.Args[:d.Offset()]
}

// Before describes what a call finds (once.Service). If a file cannot be looked at now, Before
// answers the call.
func (s *Server) Before(ctx context.Context, req *rpc.Request, resp *rpc.Response) ([]byte, bool) {
	cred, known, _ := s.credOf(req) // checked by Names
	p, _ := parseSubject(nfs3.Proc(req.Proc), req.Args)
	o := op{s: s, c: &Call{Request: req, Resp: resp, Cred: cred, known: known}, ctx: ctx, proc: p.proc}
	w, err := o.look(p)
	if err != nil {
		resp.Results = appendFailed(resp.Results, p.proc, o.status(err))
		return nil, false
	}
	return w.append(nil), true
}

// look finds out what a call finds.
func (o *op) look(p *subject) (*witness, error) {
	w := new(witness)
	switch p.proc {
	case nfs3.ProcSetAttr:
		return w, o.lookAttr(p, w)
	case nfs3.ProcWrite:
		return w, nil // the data say whether they were written
	default:
	}
	for i, a := range p.at {
		dir, err := o.file(a.Dir)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			o.newborn(w, p)
		}
		f, err := o.lookAt(&dir, a.Name)
		if err != nil {
			return nil, err
		}
		if f.node != nil {
			w.ids[i] = o.handleOf(f.node)
		}
		if f.node != nil && p.proc == nfs3.ProcCreate {
			if err := o.lookSize(p, w, &f); err != nil {
				return nil, err
			}
		}
	}
	w.clock = o.exp.now()
	return w, nil
}

// lookAttr is look for SETATTR. Pushed writes to the file are applied first, as when the call is
// executed.
func (o *op) lookAttr(p *subject, w *witness) error {
	if o.s.cfg.Guard != nil {
		args := nfs3.SetAttrArgs{Handle: p.file, Attr: p.attr, Guard: p.guard != nil}
		if args.Guard {
			args.Ctime = *p.guard
		}
		defer o.awaitChange(p.file, func() error { return o.settable(&args) })()
	}
	f, err := o.file(p.file)
	if err != nil {
		return err
	}
	w.attr, w.set = f.opt(), p.attr
	if err = o.mayApply(&f, p.guard, &p.attr); err == nil {
		err = o.likely(&f, &p.attr)
	}
	w.fails = o.status(err)
	w.clock = o.exp.now()
	return o.keepSize(w, &f)
}

// lookSize is look for a CREATE of an existing name, which may change the size.
func (o *op) lookSize(p *subject, w *witness, f *file) (err error) {
	if o.s.cfg.Guard != nil {
		o.drained(o.handleOf(f.node))
		if err := o.guard.blocked; err != nil {
			return err
		}
		if f.attr, err = f.node.Attr(); err != nil {
			return err
		}
	}
	w.attr = f.opt()
	w.set = nfs3.SetAttr{SetSize: p.attr.SetSize, Size: p.attr.Size}
	w.fails = o.status(o.likely(f, &w.set))
	return o.keepSize(w, f)
}

// sizeTries limits the rounds of keepSize while others extend the file.
const sizeTries = 8

// keepSize makes the size in w durable, for a file whose size the call changes. The size that an UNSTABLE
// WRITE has made may not survive a crash, and then nobody could tell whether the call has changed it. A
// size that is the same before and after a COMMIT is durable; a WRITE of somebody else may change it in
// between.
func (o *op) keepSize(w *witness, f *file) (err error) {
	w.attr = f.opt()
	if changes := w.allowed() && w.set.SetSize && f.attr.Type == nfs3.TypeReg && f.attr.Size != w.set.Size; !changes {
		return nil
	}
	for range sizeTries {
		before := f.attr.Size
		if _, err = f.node.Commit(0, 0); err != nil {
			return err
		}
		if f.attr, err = f.node.Attr(); err != nil {
			return err
		}
		w.attr = f.opt()
		if f.attr.Size == before {
			o.outwait(w)
			return nil
		}
	}
	return nfs3.ErrJukebox
}

// maxTick is how long the clock of a file system may stand still: that of Linux, at 100 Hz, does so for
// 10 ms.
const maxTick = 20 * time.Millisecond

// outwait waits until the clock has passed the ctime of a file that is about to be truncated, so
// that every later change has another ctime. Otherwise, if somebody else wrote the file back to its
// old size within the same tick, it would look as if nothing had happened. outwait does not wait
// for a ctime that is further ahead: there the clock was set back.
func (o *op) outwait(w *witness) {
	is := &w.attr.Attr
	if w.set.Size >= is.Size {
		return
	}
	const pause = maxTick / 40
	for range maxTick / pause {
		ahead := is.Ctime.Time().UnixNano() - o.exp.now()
		if ahead < 0 || ahead >= int64(maxTick) {
			return
		}
		time.Sleep(pause)
	}
}

// lookAt finds the file of a name, or none, whatever the permissions are.
func (o *op) lookAt(dir *file, name string) (file, error) {
	if dir.attr.Type != nfs3.TypeDir {
		return file{}, nfs3.ErrNotDir
	}
	n, a, err := dir.node.Lookup(name)
	if err == nfs3.ErrNoEnt { //nolint:errorlint // backends return it unwrapped
		return file{}, nil
	}
	return file{node: n, attr: a}, err
}

// newborn notes the attributes of the file that the call makes.
func (o *op) newborn(w *witness, p *subject) {
	var in *backend.Init
	switch p.proc {
	case nfs3.ProcMkdir:
		in = initOf(&p.attr, 0o755)
	case nfs3.ProcSymlink:
		in = initOf(&p.attr, 0o777)
	case nfs3.ProcCreate:
		in = initOf(&p.attr, 0o644)
		if p.verf != nil {
			in = initOf(&nfs3.SetAttr{}, 0o600)
		}
	case nfs3.ProcMknod:
		in = initOf(&p.attr, 0o644)
	default:
		return
	}
	w.set, w.uid, w.gid = in.Attr, o.who.UID, o.who.GID
	w.set.SetUID = w.set.SetUID && w.uid == 0
	if w.set.SetUID {
		w.uid = w.set.UID
	}
}

// now returns the time of the clock that gives births, 0 if there is none.
func (e *export) now() int64 {
	if d, ok := e.FS.(backend.Dated); ok {
		return d.Now()
	}
	return 0
}

// Refuse answers a call that has no proper answer (once.Service): IO if it cannot be recorded,
// SERVERFAULT if its outcome is unknown.
func (s *Server) Refuse(c *once.Call, why once.Refusal, results []byte) []byte {
	status := nfs3.ErrIO
	if why == once.OutcomeUnknown {
		status = nfs3.ErrServerFault
	}
	return appendFailed(results, nfs3.Proc(c.Proc), status)
}

// appendFailed appends the results of a call that failed, without attributes.
func appendFailed(b []byte, proc nfs3.Proc, status nfs3.Status) []byte {
	switch proc {
	case nfs3.ProcRename:
		return (&nfs3.RenameRes{Status: status}).Append(b)
	case nfs3.ProcLink:
		return (&nfs3.LinkRes{Status: status}).Append(b)
	case nfs3.ProcCreate, nfs3.ProcMkdir, nfs3.ProcSymlink, nfs3.ProcMknod:
		return (&nfs3.NewRes{Status: status}).Append(b)
	default:
		return (&nfs3.WccRes{Status: status}).Append(b)
	}
}
