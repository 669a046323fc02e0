package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/stag-rdma/stag/internal/callid"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// op is one NFS call in progress. The export and the ids are known after the first handle was resolved.
type op struct {
	s    *Server
	c    *Call
	ctx  context.Context
	proc nfs3.Proc
	exp  *export
	cred Cred            // as the export sees it
	who  caller.Identity // the same for the backend

	entered *export // its FS is in use until leave
}

// file is a file that an op works on.
type file struct {
	node backend.Node
	attr nfs3.Attr
}

// opt returns the attributes of f as post_op_attr: absent if there is no file.
func (f *file) opt() nfs3.OptAttr {
	if f.node == nil {
		return nfs3.OptAttr{}
	}
	return nfs3.SomeAttr(&f.attr)
}

// handleHead is the length in octets of the export number at the start of every handle.
const handleHead = 4

// appendHandle appends the handle of a file.
func (e *export) appendHandle(b []byte, n backend.Node) nfs3.FileHandle {
	return n.AppendHandle(binary.BigEndian.AppendUint32(b, e.id))
}

// node finds the file of a handle, and checks that the caller may use the export.
func (o *op) node(h nfs3.FileHandle) (backend.Node, error) {
	if len(h) <= handleHead {
		return nil, nfs3.ErrBadHandle
	}
	id := binary.BigEndian.Uint32(h)
	if o.entered == nil {
		o.entered = o.s.enter(id)
	}
	e := o.entered
	switch {
	case e == nil:
		return nil, nfs3.ErrStale
	case e.id != id && o.s.export(h) == nil:
		return nil, nfs3.ErrStale
	case e.id != id:
		return nil, nfs3.ErrXDev
	}
	e, err := o.s.admit(ended, e, o.c)
	c := o.c.Cred
	if errors.Is(err, errSec) && e.FS != nil && o.asksFirst() && bytes.Equal(h, e.appendHandle(nil, e.FS.Root())) {
		err, c = nil, Cred{Anonymous: true, Machine: c.Machine}
	}
	switch {
	case err != nil:
		return nil, err
	case e.FS == nil:
		return nil, nfs3.ErrJukebox
	}
	o.exp, o.cred = e, e.squash(c)
	o.who = o.cred.identity()
	n, err := e.FS.Resolve(o.c.RemoteAddr, h[handleHead:])
	if err != nil {
		return nil, err
	}
	return n.As(&o.who), nil
}

// asksFirst reports whether a client makes the call before it knows how users are to be known (RFC 2623 Section 2.3.2).
func (o *op) asksFirst() bool {
	return o.c.GSS == nil && (o.proc == nfs3.ProcGetAttr || o.proc == nfs3.ProcFSInfo || o.proc == nfs3.ProcFSStat)
}

// leave ends the use of the FS.
func (o *op) leave() {
	if o.entered != nil {
		o.entered.use.leave()
	}
}

// file finds the file of a handle and its attributes.
func (o *op) file(h nfs3.FileHandle) (file, error) {
	n, err := o.node(h)
	if err != nil {
		return file{}, err
	}
	a, err := n.Attr()
	if err != nil {
		return file{}, err
	}
	return file{node: n, attr: a}, nil
}

// dir is file for a directory.
func (o *op) dir(h nfs3.FileHandle) (file, error) {
	f, err := o.file(h)
	if err == nil && f.attr.Type != nfs3.TypeDir {
		err = nfs3.ErrNotDir
	}
	return f, err
}

// name checks a name that the call makes or removes in a directory.
func (o *op) name(name string, dots nfs3.Status) error {
	if backend.IsDots(name) {
		return dots
	}
	return o.lookupName(name)
}

// lookupName checks a name that the call looks up.
func (o *op) lookupName(name string) error {
	if err := backend.CheckName(name); err != nil {
		return err
	}
	if len(name) > o.exp.nameMax() {
		return nfs3.ErrNameTooLong
	}
	return nil
}

// status returns the status with which the procedure answers err, and logs errors that have none.
func (o *op) status(err error) nfs3.Status {
	s, known := statusOf(err)
	if !known {
		o.s.cfg.Logger.Warn("server: backend error", zap.Stringer("nfs.procedure", o.proc), zap.Error(err))
	}
	if errors.Is(err, errXprtSec) || errors.Is(err, errSec) {
		return s // Choice: as Linux, also where RFC 1813 lists no ACCES, so that a client that can do better knows
	}
	return fit(o.proc, s)
}

// Cred is who a caller claims to be.
type Cred struct {
	UID, GID uint32
	GIDs     []uint32
	// Anonymous says that the caller sent AUTH_NONE, or is a principal whom nobody here knows; its ids have no meaning.
	Anonymous bool
	// Machine is the caller's name for itself, for logs.
	Machine string
}

// parseCred reads a credential (RFC 5531 Section 8.2 and Appendix A).
//
// Choice: AUTH_SHORT, which this server never issues, is AUTH_REJECTEDCRED; every unknown flavor is
// AUTH_BADCRED.
func parseCred(a *xdr.Auth) (Cred, xdr.AuthStat) {
	switch a.Flavor {
	case xdr.AuthNone:
		return Cred{Anonymous: true}, xdr.AuthOK
	case xdr.AuthSys:
		c, err := xdr.ParseSysCred(a.Body)
		if err != nil {
			return Cred{}, xdr.AuthBadCred
		}
		return Cred{UID: c.UID, GID: c.GID, GIDs: c.GIDs, Machine: c.MachineName}, xdr.AuthOK
	case xdr.AuthShort:
		return Cred{}, xdr.AuthRejectedCred
	default:
		return Cred{}, xdr.AuthBadCred
	}
}

// asksGroups reports whether the user of a call has to be looked up first.
func (m *Mux) asksGroups(req *rpc.Request) bool {
	if m.groups == nil || req.GSS != nil || req.Cred.Flavor != xdr.AuthSys {
		return false
	}
	c, err := xdr.ParseSysCred(req.Cred.Body)
	if err != nil || c.UID == caller.None {
		return false
	}
	_, known := m.groups(c.UID, false)
	return !known
}

// credOf is claimOf with the groups that a user has here, if those are asked for. As with Linux, the gid stays (newgrp), and a
// uid that nobody has has no other.
func (m *Mux) credOf(req *rpc.Request) (c Cred, known bool, stat xdr.AuthStat) {
	c, known, stat = m.claimOf(req)
	if m.groups != nil && req.GSS == nil && !c.Anonymous && stat == xdr.AuthOK {
		if c.GIDs = nil; c.UID != caller.None {
			c.GIDs, _ = m.groups(c.UID, true)
		}
	}
	return c, known, stat
}

// claimOf reads the credential of a call, and compares it with the user who is known to make it.
func (m *Mux) claimOf(req *rpc.Request) (c Cred, known bool, stat xdr.AuthStat) {
	if g := req.GSS; g != nil { // verified: it does not matter whose the connection is
		if m.principal != nil {
			if u, ok := m.principal(g.Principal); ok && len(u.GIDs) > 0 {
				return Cred{UID: u.UID, GID: u.GIDs[0], GIDs: u.GIDs, Machine: g.Principal.Name}, true, xdr.AuthOK
			}
		}
		return Cred{Anonymous: true, Machine: g.Principal.Name}, true, xdr.AuthOK
	}
	c, stat = parseCred(&req.Cred)
	if stat != xdr.AuthOK || m.local == nil {
		return c, false, stat
	}
	u, local := m.local(req.RemoteAddr)
	known = local && u.UID != caller.None
	if !local || known && (u.UID == 0 || c.Anonymous) {
		return c, known, stat
	}
	if !known || c.UID != u.UID {
		if p := m.find(req.Prog); p == nil || p.weak == nil || req.Proc == 0 || p.weak(req.Proc) {
			return Cred{Anonymous: true, Machine: c.Machine}, known, stat // identity does not matter there
		}
		return c, known, xdr.AuthBadCred
	}
	foreign := func(gid uint32) bool { return !slices.Contains(u.GIDs, gid) }
	if slices.ContainsFunc(c.GIDs, foreign) {
		c.GIDs = slices.DeleteFunc(slices.Clone(c.GIDs), foreign)
	}
	if foreign(c.GID) {
		c.GID = caller.None // which becomes the anonymous one
		if len(u.GIDs) > 0 {
			c.GID = u.GIDs[0]
		}
	}
	return c, known, stat
}

// squash returns c as the export sees it. The id 2^32-1 is nobody's: to system calls it means "no change",
// which for a server that is root means root, so it is always anonymous.
func (e *export) squash(c Cred) Cred {
	if c.Anonymous || e.Squash == SquashAll || !e.info.Owners {
		return Cred{UID: e.AnonUID, GID: e.AnonGID, Machine: c.Machine}
	}
	bad := func(id uint32) bool { return id == caller.None || id == 0 && e.Squash != SquashNone }
	if bad(c.UID) {
		c.UID = e.AnonUID
	}
	if bad(c.GID) {
		c.GID = e.AnonGID
	}
	if i := slices.IndexFunc(c.GIDs, bad); i >= 0 {
		c.GIDs = slices.Clone(c.GIDs)
		for ; i < len(c.GIDs); i++ {
			if bad(c.GIDs[i]) {
				c.GIDs[i] = e.AnonGID
			}
		}
	}
	return c
}

// identity returns who the kernel takes calls of c for.
func (c *Cred) identity() caller.Identity {
	return caller.Identity{UID: c.UID, GID: c.GID, Groups: c.GIDs}
}

// Every procedure has a list of the errors that it may return (RFC 1813 Section 3.3); STALE,
// BADHANDLE, SERVERFAULT and JUKEBOX are in all of them. Clients need not expect others, so the
// error of a backend is converted to one in the list.
var allowed = [nfs3.ProcCount][]nfs3.Status{
	nfs3.ProcGetAttr:  {nfs3.ErrIO},
	nfs3.ProcAccess:   {nfs3.ErrIO},
	nfs3.ProcCommit:   {nfs3.ErrIO},
	nfs3.ProcFSStat:   {nfs3.ErrIO},
	nfs3.ProcFSInfo:   {},
	nfs3.ProcPathConf: {},
	nfs3.ProcSetAttr: {
		nfs3.ErrPerm, nfs3.ErrIO, nfs3.ErrAcces, nfs3.ErrInval, nfs3.ErrNoSpc,
		nfs3.ErrROFS, nfs3.ErrDQuot, nfs3.ErrNotSync,
	},
	nfs3.ProcLookup: {
		nfs3.ErrIO, nfs3.ErrNoEnt, nfs3.ErrAcces, nfs3.ErrNotDir,
		nfs3.ErrNameTooLong,
	},
	nfs3.ProcReadLink: {nfs3.ErrIO, nfs3.ErrInval, nfs3.ErrAcces, nfs3.ErrNotSupp},
	nfs3.ProcRead:     {nfs3.ErrIO, nfs3.ErrNXIO, nfs3.ErrAcces, nfs3.ErrInval},
	nfs3.ProcWrite: {
		nfs3.ErrIO, nfs3.ErrAcces, nfs3.ErrFBig, nfs3.ErrDQuot, nfs3.ErrNoSpc,
		nfs3.ErrROFS, nfs3.ErrInval,
	},
	nfs3.ProcCreate:  makers,
	nfs3.ProcMkdir:   makers,
	nfs3.ProcSymlink: makers,
	// Choice: PERM, which the RFC does not list, says that devices need root.
	nfs3.ProcMknod: append([]nfs3.Status{nfs3.ErrBadType, nfs3.ErrPerm}, makers...),
	nfs3.ProcRemove: {
		nfs3.ErrNoEnt, nfs3.ErrIO, nfs3.ErrAcces, nfs3.ErrNotDir,
		nfs3.ErrNameTooLong, nfs3.ErrROFS,
	},
	nfs3.ProcRmdir: {
		nfs3.ErrNoEnt, nfs3.ErrIO, nfs3.ErrAcces, nfs3.ErrInval, nfs3.ErrExist,
		nfs3.ErrNotDir, nfs3.ErrNameTooLong, nfs3.ErrROFS, nfs3.ErrNotEmpty, nfs3.ErrNotSupp,
	},
	nfs3.ProcRename: {
		nfs3.ErrNoEnt, nfs3.ErrIO, nfs3.ErrAcces, nfs3.ErrExist, nfs3.ErrXDev,
		nfs3.ErrNotDir, nfs3.ErrIsDir, nfs3.ErrInval, nfs3.ErrNoSpc, nfs3.ErrROFS, nfs3.ErrMLink,
		nfs3.ErrNameTooLong, nfs3.ErrNotEmpty, nfs3.ErrDQuot, nfs3.ErrNotSupp,
	},
	nfs3.ProcLink: {
		nfs3.ErrIO, nfs3.ErrAcces, nfs3.ErrExist, nfs3.ErrXDev, nfs3.ErrNotDir,
		nfs3.ErrInval, nfs3.ErrNoSpc, nfs3.ErrROFS, nfs3.ErrMLink, nfs3.ErrNameTooLong,
		nfs3.ErrDQuot, nfs3.ErrNotSupp,
	},
	nfs3.ProcReadDir: {
		nfs3.ErrIO, nfs3.ErrAcces, nfs3.ErrNotDir, nfs3.ErrBadCookie,
		nfs3.ErrTooSmall,
	},
	nfs3.ProcReadDirPlus: {
		nfs3.ErrIO, nfs3.ErrAcces, nfs3.ErrNotDir, nfs3.ErrBadCookie,
		nfs3.ErrTooSmall, nfs3.ErrNotSupp,
	},
}

var makers = []nfs3.Status{
	nfs3.ErrIO, nfs3.ErrAcces, nfs3.ErrExist, nfs3.ErrNotDir,
	nfs3.ErrNoSpc, nfs3.ErrROFS, nfs3.ErrNameTooLong, nfs3.ErrDQuot, nfs3.ErrNotSupp,
}

// always are the errors that every procedure may return.
var always = []nfs3.Status{
	nfs3.OK, nfs3.ErrStale, nfs3.ErrBadHandle, nfs3.ErrServerFault,
	nfs3.ErrJukebox,
}

// instead lists substitutes, best first, for a status that a procedure may not return. The last
// resort is IO, then SERVERFAULT.
var instead = map[nfs3.Status][]nfs3.Status{
	nfs3.ErrPerm:        {nfs3.ErrAcces},
	nfs3.ErrAcces:       {nfs3.ErrPerm},
	nfs3.ErrIsDir:       {nfs3.ErrInval, nfs3.ErrAcces},
	nfs3.ErrNotDir:      {nfs3.ErrInval},
	nfs3.ErrInval:       {nfs3.ErrAcces},
	nfs3.ErrFBig:        {nfs3.ErrInval, nfs3.ErrNoSpc},
	nfs3.ErrDQuot:       {nfs3.ErrNoSpc},
	nfs3.ErrNoSpc:       {nfs3.ErrIO},
	nfs3.ErrMLink:       {nfs3.ErrNoSpc},
	nfs3.ErrNameTooLong: {nfs3.ErrInval},
	nfs3.ErrNotEmpty:    {nfs3.ErrExist},
	nfs3.ErrNoEnt:       {nfs3.ErrStale},
	nfs3.ErrXDev:        {nfs3.ErrAcces},
	nfs3.ErrNotSupp:     {nfs3.ErrInval},
	nfs3.ErrROFS:        {nfs3.ErrAcces},
}

// fit returns the status that a procedure returns for s.
func fit(p nfs3.Proc, s nfs3.Status) nfs3.Status {
	if may(p, s) {
		return s
	}
	for _, alt := range instead[s] {
		if may(p, alt) {
			return alt
		}
	}
	if may(p, nfs3.ErrIO) {
		return nfs3.ErrIO
	}
	return nfs3.ErrServerFault
}

func may(p nfs3.Proc, s nfs3.Status) bool {
	return slices.Contains(always, s) || slices.Contains(allowed[p], s)
}

// statusOf returns the status of an error, IO for one that has none.
func statusOf(err error) (s nfs3.Status, known bool) {
	if err == nil {
		return nfs3.OK, true
	}
	if s, ok := errors.AsType[nfs3.Status](err); ok {
		return s, true
	}
	return nfs3.ErrIO, false
}

// stripes are locks by file. Two files may share one.
type stripes struct {
	mu   [64]sync.Mutex
	once sync.Once
	seed maphash.Seed
}

// index returns the stripe of a handle.
func (s *stripes) index(h nfs3.FileHandle) int {
	s.once.Do(func() { s.seed = maphash.MakeSeed() })
	return int(maphash.Bytes(s.seed, h) % uint64(len(s.mu)))
}

// lock locks the stripes of up to two handles, always in the same order, and returns a function
// that unlocks them.
func (s *stripes) lock(a, b nfs3.FileHandle) (unlock func()) {
	i, j := s.index(a), -1
	if b != nil {
		j = s.index(b)
	}
	if j == i {
		j = -1
	}
	if j >= 0 && j < i {
		i, j = j, i
	}
	s.mu[i].Lock()
	if j < 0 {
		return s.mu[i].Unlock
	}
	s.mu[j].Lock()
	return func() {
		s.mu[j].Unlock()
		s.mu[i].Unlock()
	}
}

// changed fills in the wcc_data of a file that an op has changed, or has not, with its attributes of now as "after". Those of f are
// "before"; they are sent only if nobody else can have changed the file in between (RFC 1813 Section 2.6).
func (o *op) changed(f *file, w *nfs3.Wcc) {
	if f.node == nil {
		return
	}
	if a, err := f.node.Attr(); err == nil {
		w.After = nfs3.SomeAttr(&a)
		if o.exp.info.AtomicWcc {
			w.Before = nfs3.OptWcc{Present: true, Attr: f.attr.Wcc()}
		}
	}
}

// hold keeps other changes of up to two files away if that makes their "before" attributes exact.
// It must be called before the attributes are read.
func (o *op) hold(a, b nfs3.FileHandle) (release func()) {
	if len(a) <= handleHead {
		return func() {}
	}
	if e := o.s.export(a); e == nil || !e.info.AtomicWcc {
		return func() {}
	}
	return o.s.locks.lock(a, b)
}

// export returns the export of a handle, or nil.
func (s *Server) export(h nfs3.FileHandle) *export {
	if len(h) <= handleHead {
		return nil
	}
	return s.table.Load().byID[binary.BigEndian.Uint32(h)]
}

// callID identifies the call for other servers of the same files, nil if there are none. It holds what the
// transport's cache of replies compares, too.
func (o *op) callID() *backend.CallID {
	if _, ok := o.exp.FS.(backend.Shared); !ok {
		return nil
	}
	k := callid.Of(o.c.RemoteAddr, &o.c.CallHeader, len(o.c.Args))
	h := sha256.New()
	var b []byte
	for _, n := range [...]uint32{k.XID, k.Prog, k.Vers, k.Proc, k.Client.Flavor, uint32(len(k.Client.Addr)), uint32(len(k.Client.Cred))} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	h.Write(b)
	h.Write([]byte(k.Client.Addr))
	h.Write([]byte(k.Client.Cred))
	h.Write(o.c.Args)
	id := backend.CallID(h.Sum(nil)[:len(backend.CallID{})])
	return &id
}

// gone reports whether the file that had a name has it no longer.
func gone(was, is nfs3.FileHandle) bool { return len(was) > 0 && !bytes.Equal(was, is) }

// notTwice runs a call that changes a name, unless that has happened at another server, from which no answer came.
// done compares the files that the name had before, empty for none, and has now.
func (o *op) notTwice(dir *file, name string, done func(was, is nfs3.FileHandle) bool, run func() error) error {
	s, ok := o.exp.FS.(backend.Shared)
	if !ok {
		return run()
	}
	is, err := o.idAt(dir, name)
	if err != nil {
		return err
	}
	id := *o.callID()
	was, times, err := s.Remember(o.ctx, id, is)
	if err != nil || times > 1 && done(was, is) {
		return err
	}
	err = run()
	if !errors.Is(err, nfs3.ErrNoEnt) && !errors.Is(err, nfs3.ErrExist) {
		return err
	}
	// Another server may be at the same call, and was faster. That it has it, it has said before it ran it.
	if times == 1 {
		if _, times, rerr := s.Remember(o.ctx, id, is); rerr != nil || times == 2 { // only this one, twice
			return err
		}
	}
	if is, ierr := o.idAt(dir, name); ierr == nil && done(was, is) {
		return nil
	}
	return err
}

// idAt returns the handle of the file that has a name, whatever the permissions are, empty if there is none.
func (o *op) idAt(dir *file, name string) (nfs3.FileHandle, error) {
	if dir.attr.Type != nfs3.TypeDir {
		return nil, nfs3.ErrNotDir
	}
	n, _, err := dir.node.Lookup(name)
	switch {
	case err == nfs3.ErrNoEnt: //nolint:errorlint // backends return it unwrapped
		return nil, nil
	case err != nil:
		return nil, err
	}
	return o.exp.appendHandle(nil, n), nil
}
