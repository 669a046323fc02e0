package judge

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// nfsAsked is what the replies to an NFS call are judged by.
type nfsAsked struct {
	known  bool // the arguments were seen
	offset uint64
	count  uint32 // READ, WRITE: octets; READDIR: of the results; READDIRPLUS: maxcount
	handle string
	dirs   [2]string // whose attributes the reply has besides
	stable nfs3.StableHow
	access nfs3.Access
}

// nfsServer is what a server has announced.
type nfsServer struct {
	rtmax, wtmax uint32 // of FSINFO; 0: unknown
	verf         nfs3.WriteVerf
	verfSeen     bool
	verfBefore   nfs3.WriteVerf // before verfChange
	verfChange   *Violation     // nil: it has not changed
	served       map[served]bool
	files        map[string]identity // by handle
}

// served is a program, version and procedure that was executed; with version and procedure 0 any of the program.
type served struct{ prog, vers, proc uint32 }

// serves notes that a call was executed.
func (s *nfsServer) serves(c *rpcCall) {
	if s.served == nil || len(s.served) >= maxFiles {
		s.served = make(map[served]bool)
	}
	s.served[served{c.prog, 0, 0}], s.served[served{c.prog, c.progVers, c.proc}] = true, true
}

// identity is what the attributes of a file handle always say.
type identity struct {
	object
	frame  int        // that showed it
	before object     // before change
	change *Violation // nil: it has not changed
}

type object struct {
	kind         nfs3.FileType
	fsid, fileid uint64
}

// maxFiles bounds the handles that are remembered.
const maxFiles = 4096

// maxCompare bounds the messages that are encoded again to find pad that is not 0, in octets.
const maxCompare = 64 << 10

// args judges the arguments of a call.
func (m *rpcMachine) args(r *decode.RPC, c *rpcCall) {
	if c.proc == 0 {
		if c.goodArgs = len(r.Body) == 0; !c.goodArgs && !c.gss { // else a token
			c.odd = m.violate("RPC-012", "NULL with %d octets of arguments", len(r.Body))
		}
		return
	}
	if r.Compound != nil {
		m.compoundCall(r, c)
	}
	if !r.Whole {
		m.nfsCall(r.Message, c) // nil: comes with Pulled
		return
	}
	before := len(m.fold.now)
	defer func() {
		c.goodArgs = r.Err == nil && r.Message != nil && len(m.fold.now) == before && !c.wrongArgs && c.odd == nil
	}()
	switch err := r.Err; {
	case err == nil:
		m.pads(r)
	case errors.Is(err, decode.ErrTrailing):
		m.violateAfter(c.odd, m.ev.Dir, "RPC-013", "%v", err)
	case isDecode(err):
		c.wrongArgs = true
		m.violateAfter(c.odd, m.ev.Dir, "NFS-001", "%s: %v", r.Name, err)
		return
	}
	m.nfsCall(r.Message, c)
}

// res judges the results of a reply.
func (m *rpcMachine) res(r *decode.RPC, c *rpcCall) {
	if c.proc == 0 && len(r.Body) > 0 && !c.gss {
		m.violateAfter(c.odd, m.ev.Dir, "RPC-012", "NULL with %d octets of results", len(r.Body))
		return
	}
	if c.wrongArgs {
		m.violate("NFS-003", "SUCCESS, but the arguments in frame %d do not decode", c.frame)
		return
	}
	if r.Whole {
		switch err := r.Err; {
		case err == nil:
			m.pads(r)
		case errors.Is(err, decode.ErrTrailing):
			m.violateAfter(c.odd, m.ev.Dir, "RPC-013", "%v", err)
		case isDecode(err):
			m.violateAfter(c.odd, m.ev.Dir, "NFS-002", "%s: %v", r.Name, err)
			return
		}
	}
	if r.Compound != nil {
		m.compoundReply(r, c)
	}
	m.status(r, c)
	m.nfsReply(r, c)
}

// isDecode reports whether an error is about XDR.
func isDecode(err error) bool {
	_, ok := errors.AsType[*xdr.DecodeError](err)
	return ok
}

// pads judges pad: a decoded message that is encoded again is the same, except for pad that is not 0.
func (m *rpcMachine) pads(r *decode.RPC) {
	if r.Message == nil || len(r.Body) > maxCompare {
		return
	}
	m.buf = xdr.Encode(m.buf[:0], r.Message)
	if !bytes.Equal(m.buf, r.Body) {
		m.violate("RPC-014", "pad in %s", r.Name)
	}
}

// nfsCall judges the arguments of NFSv3, and keeps what the reply will be judged by.
func (m *rpcMachine) nfsCall(msg xdr.Message, c *rpcCall) {
	c.nfs.known, c.nfs.handle = msg != nil, handleOf(msg)
	switch a := msg.(type) {
	case *nfs3.ReadArgs:
		c.nfs.offset, c.nfs.count = a.Offset, a.Count
		m.largest("READ", a.Count, m.server.rtmax)
	case *nfs3.WriteArgs:
		c.nfs.count, c.nfs.stable = max(a.Count, uint32(len(a.Data))), a.Stable // NFS-010 is the call's
		if int(a.Count) != len(a.Data) {
			m.violate("NFS-010", "count %d, data of %d octets", a.Count, len(a.Data))
		}
		m.largest("WRITE", a.Count, m.server.wtmax)
	case *nfs3.AccessArgs:
		c.nfs.access = a.Access
		if a.Access&^nfs3.AccessAll != 0 {
			m.violate("NFS-041", "access %#x", uint32(a.Access))
		}
	case *nfs3.ReadDirArgs:
		c.nfs.count = a.Count
		m.listing(a.Cookie, a.Verf)
	case *nfs3.ReadDirPlusArgs:
		c.nfs.count = a.MaxCount
		m.listing(a.Cookie, a.Verf)
	case *nfs3.SetAttrArgs:
		m.setTimes(&a.Attr)
	case *nfs3.CreateArgs:
		c.nfs.dirs[0] = string(a.Where.Dir)
		m.name(a.Where.Name)
		m.setTimes(&a.Attr)
	case *nfs3.MkdirArgs:
		c.nfs.dirs[0] = string(a.Where.Dir)
		m.name(a.Where.Name)
		m.setTimes(&a.Attr)
	case *nfs3.SymlinkArgs:
		c.nfs.dirs[0] = string(a.Where.Dir)
		m.name(a.Where.Name)
		m.setTimes(&a.Attr)
	case *nfs3.MknodArgs:
		c.nfs.dirs[0] = string(a.Where.Dir)
		m.name(a.Where.Name)
	case *nfs3.DirOpArgs:
		m.name(a.Name)
	case *nfs3.RenameArgs:
		c.nfs.dirs = [2]string{string(a.From.Dir), string(a.To.Dir)}
		m.name(a.From.Name)
		m.name(a.To.Name)
	case *nfs3.LinkArgs:
		c.nfs.dirs[0] = string(a.Link.Dir)
		m.name(a.Link.Name)
	}
}

func (m *rpcMachine) largest(proc string, count, limit uint32) {
	if limit > 0 && count > limit {
		m.violate("NFS-046", "%s of %d octets, FSINFO allows %d", proc, count, limit)
	}
}

func (m *rpcMachine) listing(cookie uint64, verf nfs3.CookieVerf) {
	if cookie == 0 && verf != (nfs3.CookieVerf{}) {
		m.violate("NFS-031", "cookie 0 with verifier %x", verf)
	}
}

// handleOf returns the handle of the object that the attributes of the reply describe.
func handleOf(msg xdr.Message) string {
	switch a := msg.(type) {
	case *nfs3.HandleArgs:
		return string(a.Handle)
	case *nfs3.AccessArgs:
		return string(a.Handle)
	case *nfs3.ReadArgs:
		return string(a.Handle)
	case *nfs3.WriteArgs:
		return string(a.Handle)
	case *nfs3.SetAttrArgs:
		return string(a.Handle)
	case *nfs3.CommitArgs:
		return string(a.Handle)
	case *nfs3.LinkArgs:
		return string(a.Handle)
	case *nfs3.DirOpArgs:
		return string(a.Dir)
	case *nfs3.ReadDirArgs:
		return string(a.Dir)
	case *nfs3.ReadDirPlusArgs:
		return string(a.Dir)
	}
	return ""
}

// setTimes judges the times, and the mode, that a call sets.
func (m *rpcMachine) setTimes(a *nfs3.SetAttr) {
	if a.SetMode {
		m.mode(a.Mode)
	}
	if a.AtimeHow == nfs3.ClientTime {
		m.nanoseconds(a.Atime)
	}
	if a.MtimeHow == nfs3.ClientTime {
		m.nanoseconds(a.Mtime)
	}
}

// mode judges mode bits (RFC 1813 Section 2.5).
func (m *rpcMachine) mode(bits uint32) {
	if bits&^0o7777 != 0 {
		m.violate("NFS-047", "mode %#o", bits)
	}
}

func (m *rpcMachine) nanoseconds(t nfs3.Time) {
	if t.Nsec >= 1e9 {
		m.violate("NFS-042", "%d nanoseconds", t.Nsec)
	}
}

// badName reports whether a name cannot be that of a directory entry.
func badName(s string) bool { return s == "" || strings.ContainsAny(s, "/\x00") }

func (m *rpcMachine) name(s string) {
	if badName(s) {
		m.violate("NFS-043", "name %q", s)
	}
}

// nfsReply judges the results of NFSv3 against what was asked.
func (m *rpcMachine) nfsReply(r *decode.RPC, c *rpcCall) {
	if res, ok := r.Message.(nfs3.Result); !c.nfs.known || ok && *res.Stat() != nfs3.OK {
		return
	}
	switch res := r.Message.(type) {
	case *nfs3.GetAttrRes:
		m.attr(c.nfs.handle, &res.Attr)
	case *nfs3.LookupRes:
		m.optAttr(string(res.Handle), &res.Attr)
		m.optAttr(c.nfs.handle, &res.DirAttr)
	case *nfs3.NewRes:
		if res.Handle.Present {
			m.optAttr(string(res.Handle.Handle), &res.Attr)
		}
		m.optAttr(c.nfs.dirs[0], &res.DirWcc.After)
	case *nfs3.RenameRes:
		m.optAttr(c.nfs.dirs[0], &res.FromWcc.After)
		m.optAttr(c.nfs.dirs[1], &res.ToWcc.After)
	case *nfs3.LinkRes:
		m.optAttr(c.nfs.handle, &res.Attr)
		m.optAttr(c.nfs.dirs[0], &res.DirWcc.After)
	case *nfs3.ReadLinkRes:
		m.optAttr(c.nfs.handle, &res.Attr)
	case *nfs3.WccRes: // of SETATTR, REMOVE and RMDIR: of the object, or of the directory
		m.optAttr(c.nfs.handle, &res.Wcc.After)
	case *nfs3.FSStatRes:
		m.optAttr(c.nfs.handle, &res.Attr)
	case *nfs3.AccessRes:
		m.optAttr(c.nfs.handle, &res.Attr)
		if res.Access&^c.nfs.access != 0 {
			m.violate("NFS-040", "granted %#x of %#x", uint32(res.Access), uint32(c.nfs.access))
		}
	case *nfs3.ReadRes:
		m.readRes(res, c)
	case *nfs3.WriteRes:
		m.writeRes(res, c)
	case *nfs3.CommitRes:
		m.optAttr(c.nfs.handle, &res.Wcc.After)
		m.verifier(res.Verf)
	case *nfs3.ReadDirRes:
		m.optAttr(c.nfs.handle, &res.Attr)
		for i := range res.Entries {
			m.entry(res.Entries[i].Name)
		}
		m.listed(r, c)
	case *nfs3.ReadDirPlusRes:
		m.optAttr(c.nfs.handle, &res.Attr)
		for i := range res.Entries {
			m.entry(res.Entries[i].Name)
			if e := &res.Entries[i]; e.Handle.Present {
				m.optAttr(string(e.Handle.Handle), &e.Attr)
			}
		}
		m.listed(r, c)
	case *nfs3.FSInfoRes:
		m.server.rtmax, m.server.wtmax = res.RTMax, res.WTMax
		if res.RTPref > res.RTMax || res.WTPref > res.WTMax {
			m.violate("NFS-045", "rtpref %d of %d, wtpref %d of %d", res.RTPref, res.RTMax, res.WTPref, res.WTMax)
		}
	}
}

// attr judges attributes of the object that a handle names; "": it is not known which.
func (m *rpcMachine) attr(handle string, a *nfs3.Attr) {
	m.mode(a.Mode)
	m.same(handle, a)
	for _, t := range []nfs3.Time{a.Atime, a.Mtime, a.Ctime} {
		if t.Nsec >= 1e9 {
			m.nanoseconds(t)
			return
		}
	}
}

// same judges whether a handle still names the same object.
func (m *rpcMachine) same(handle string, a *nfs3.Attr) {
	if handle == "" {
		return
	}
	now := object{a.Type, a.FSID, a.FileID}
	id, ok := m.server.files[handle]
	if ok && now != id.object {
		var back *Violation
		if now == id.before {
			back = id.change
		}
		id.change = m.violateAfter(back, m.ev.Dir, "NFS-014", "%v %d of file system %#x, in frame %d: %v %d of %#x", now.kind, now.fileid, now.fsid,
			id.frame, id.kind, id.fileid, id.fsid)
		id.before = id.object
	}
	if m.server.files == nil || len(m.server.files) >= maxFiles {
		m.server.files = make(map[string]identity)
	}
	id.object, id.frame = now, m.ev.Frame
	m.server.files[handle] = id
}

func (m *rpcMachine) optAttr(handle string, a *nfs3.OptAttr) {
	if a.Present {
		m.attr(handle, &a.Attr)
	}
}

func (m *rpcMachine) readRes(res *nfs3.ReadRes, c *rpcCall) {
	m.optAttr(c.nfs.handle, &res.Attr)
	switch end := c.nfs.offset + uint64(res.Count); {
	case int(res.Count) != len(res.Data):
		m.violate("NFS-020", "count %d, data of %d octets", res.Count, len(res.Data))
	case res.Count > c.nfs.count:
		m.violate("NFS-021", "%d octets, asked for %d", res.Count, c.nfs.count)
	case res.Attr.Present && res.EOF != (end >= res.Attr.Attr.Size):
		m.violate("NFS-022", "eof %t at %d of %d octets", res.EOF, end, res.Attr.Attr.Size)
	}
}

func (m *rpcMachine) writeRes(res *nfs3.WriteRes, c *rpcCall) {
	m.optAttr(c.nfs.handle, &res.Wcc.After)
	if res.Count > c.nfs.count {
		m.violate("NFS-011", "%d octets, asked for %d", res.Count, c.nfs.count)
	}
	if res.Committed < c.nfs.stable {
		m.violate("NFS-012", "%v, asked for %v", res.Committed, c.nfs.stable)
	}
	m.verifier(res.Verf)
}

// verifier judges whether the server is still the same. Choice: a note, since a server that restarts behind
// the same connection, or has lost unstable data, must change its verifier.
func (m *rpcMachine) verifier(v nfs3.WriteVerf) {
	s := &m.server
	if s.verfSeen && v != s.verf {
		var back *Violation
		if v == s.verfBefore {
			back = s.verfChange
		}
		s.verfChange = m.violateAfter(back, m.ev.Dir, "NFS-013", "verifier %x was %x", v, s.verf)
		s.verfBefore = s.verf
	}
	s.verf, s.verfSeen = v, true
}

func (m *rpcMachine) entry(name string) {
	if badName(name) {
		m.violate("NFS-032", "name %q", name)
	}
}

// listed judges the size of a listing: count and maxcount bound the resok, that is, the results without the
// status (RFC 1813 Section 3.3.16, RFC 1813 Section 3.3.17).
func (m *rpcMachine) listed(r *decode.RPC, c *rpcCall) {
	if n := len(r.Body) - 4; n > int(c.nfs.count) {
		m.violate("NFS-030", "%d octets, asked for %d", n, c.nfs.count)
	}
}

// always are the statuses that every procedure may return (RFC 1813 Section 3.3).
var always = []nfs3.Status{nfs3.ErrStale, nfs3.ErrBadHandle, nfs3.ErrServerFault, nfs3.ErrJukebox}

// creating are those of the procedures that create something.
var creating = []nfs3.Status{
	nfs3.ErrIO, nfs3.ErrAcces, nfs3.ErrExist, nfs3.ErrNotDir, nfs3.ErrNoSpc, nfs3.ErrROFS, nfs3.ErrNameTooLong, nfs3.ErrDQuot, nfs3.ErrNotSupp,
}

// listing are those of READDIR.
var listing = []nfs3.Status{nfs3.ErrIO, nfs3.ErrAcces, nfs3.ErrNotDir, nfs3.ErrBadCookie, nfs3.ErrTooSmall}

// statuses are the further statuses that each procedure lists.
var statuses = [nfs3.ProcCount][]nfs3.Status{
	nfs3.ProcGetAttr:     {nfs3.ErrIO},
	nfs3.ProcSetAttr:     {nfs3.ErrPerm, nfs3.ErrIO, nfs3.ErrAcces, nfs3.ErrInval, nfs3.ErrNoSpc, nfs3.ErrROFS, nfs3.ErrDQuot, nfs3.ErrNotSync},
	nfs3.ProcLookup:      {nfs3.ErrIO, nfs3.ErrNoEnt, nfs3.ErrAcces, nfs3.ErrNotDir, nfs3.ErrNameTooLong},
	nfs3.ProcAccess:      {nfs3.ErrIO},
	nfs3.ProcReadLink:    {nfs3.ErrIO, nfs3.ErrInval, nfs3.ErrAcces, nfs3.ErrNotSupp},
	nfs3.ProcRead:        {nfs3.ErrIO, nfs3.ErrNXIO, nfs3.ErrAcces, nfs3.ErrInval},
	nfs3.ProcWrite:       {nfs3.ErrIO, nfs3.ErrAcces, nfs3.ErrFBig, nfs3.ErrDQuot, nfs3.ErrNoSpc, nfs3.ErrROFS, nfs3.ErrInval},
	nfs3.ProcCreate:      creating,
	nfs3.ProcMkdir:       creating,
	nfs3.ProcSymlink:     creating,
	nfs3.ProcMknod:       append(slices.Clone(creating), nfs3.ErrBadType),
	nfs3.ProcRemove:      {nfs3.ErrNoEnt, nfs3.ErrIO, nfs3.ErrAcces, nfs3.ErrNotDir, nfs3.ErrNameTooLong, nfs3.ErrROFS},
	nfs3.ProcRmdir:       {nfs3.ErrNoEnt, nfs3.ErrIO, nfs3.ErrAcces, nfs3.ErrInval, nfs3.ErrExist, nfs3.ErrNotDir, nfs3.ErrNameTooLong, nfs3.ErrROFS, nfs3.ErrNotEmpty, nfs3.ErrNotSupp},
	nfs3.ProcRename:      {nfs3.ErrNoEnt, nfs3.ErrIO, nfs3.ErrAcces, nfs3.ErrExist, nfs3.ErrXDev, nfs3.ErrNotDir, nfs3.ErrIsDir, nfs3.ErrInval, nfs3.ErrNoSpc, nfs3.ErrROFS, nfs3.ErrMLink, nfs3.ErrNameTooLong, nfs3.ErrNotEmpty, nfs3.ErrDQuot, nfs3.ErrNotSupp},
	nfs3.ProcLink:        {nfs3.ErrIO, nfs3.ErrAcces, nfs3.ErrExist, nfs3.ErrXDev, nfs3.ErrNotDir, nfs3.ErrInval, nfs3.ErrNoSpc, nfs3.ErrROFS, nfs3.ErrMLink, nfs3.ErrNameTooLong, nfs3.ErrDQuot, nfs3.ErrNotSupp},
	nfs3.ProcReadDir:     listing,
	nfs3.ProcReadDirPlus: append(slices.Clone(listing), nfs3.ErrNotSupp),
	nfs3.ProcFSStat:      {nfs3.ErrIO},
	nfs3.ProcCommit:      {nfs3.ErrIO},
}

// mountStatuses are the values of mountstat3 (RFC 1813 Section 5.1.5).
var mountStatuses = []uint32{0, 1, 2, 5, 13, 20, 22, 63, 10004, 10006}

// status judges the status of a reply.
func (m *rpcMachine) status(r *decode.RPC, c *rpcCall) {
	code := nfs3.Status(r.StatusCode)
	switch {
	case r.Status == "":
	case c.prog == progMount && mount3.Proc(c.proc) == mount3.ProcMnt:
		if !slices.Contains(mountStatuses, r.StatusCode) {
			m.violate("NFS-004", "%s: %s", r.Name, r.Status)
		}
	case c.prog != progNFS || c.progVers != nfs3.Version || !nfs3.Proc(c.proc).Known():
	case strings.HasPrefix(r.Status, "nfsstat3("):
		m.violate("NFS-004", "%s: %s", r.Name, r.Status)
	case code != nfs3.OK && !slices.Contains(always, code) && !slices.Contains(statuses[c.proc], code):
		m.violate("NFS-005", "%s: %s", r.Name, r.Status)
	}
}

// opIllegal is the answer of a server to an operation that it does not know (RFC 8881 Section 18.52).
const opIllegal = 10044

// compoundAsked is the COMPOUND of NFSv4 that a reply answers.
type compoundAsked struct {
	known bool
	tag   string
	ops   []uint32
	whole bool // all operations are in ops
}

// compoundCall keeps what the reply will be judged by.
func (m *rpcMachine) compoundCall(r *decode.RPC, c *rpcCall) {
	a := compoundAsked{known: true, tag: r.Compound.Tag, whole: r.Compound.Err == nil}
	for _, op := range r.Compound.Ops {
		a.ops = append(a.ops, op.Num)
	}
	c.nfs4 = a
}

// compoundReply judges the results of a COMPOUND (RFC 8881 Section 16.2).
func (m *rpcMachine) compoundReply(r *decode.RPC, c *rpcCall) {
	res, a := r.Compound, &c.nfs4
	if !a.known {
		return
	}
	if res.Tag != a.tag {
		m.violate("NFS-052", "tag %q, the call has %q", res.Tag, a.tag)
	}
	if a.whole && (int64(res.NumOps) > int64(len(a.ops)) || res.Status == 0 && int64(res.NumOps) < int64(len(a.ops))) {
		m.violate("NFS-050", "%d results for %d operations, status %d", res.NumOps, len(a.ops), res.Status)
		return
	}
	for i, op := range res.Ops {
		last := int64(i) == int64(res.NumOps)-1
		switch {
		case i < len(a.ops) && op.Num != a.ops[i] && op.Num != opIllegal:
			m.violate("NFS-050", "result %d is of operation %d, the call has %d", i+1, op.Num, a.ops[i])
			return
		case res.Err != nil && i == len(res.Ops)-1: // could not be read
		case last && op.Status != res.Status:
			m.violate("NFS-051", "status %d, that of the last operation is %d", res.Status, op.Status)
		case !last && op.Status != 0:
			m.violate("NFS-051", "operations follow %s, which has failed with %d", op.Name, op.Status)
			return
		}
	}
}

// movedOps returns how many operations have an item in a chunk.
func movedOps(c *decode.Compound) (n int) {
	for i := range c.Ops {
		if c.Ops[i].Moved > 0 {
			n++
		}
	}
	return n
}

// compoundReduced judges the Read chunks of a COMPOUND that came inline: each must belong to an argument
// that may be reduced (RFC 8267 Section 5). The decoder has found the chunks that do.
func (m *rpcMachine) compoundReduced(r *decode.RPC) {
	positions := 0
	for _, ch := range m.layout.Chunks {
		if ch.Len > 0 {
			positions++
		}
	}
	if c := r.Compound; c != nil && c.Err == nil && !r.Whole && positions > movedOps(c) {
		m.violate("RPCRDMA-027", "%d Read chunks, %d operations with an eligible argument at one", positions, movedOps(c))
	}
}

// compoundWritten is the same for the Write chunks of a reply.
func (m *rpcMachine) compoundWritten(r *decode.RPC, list []chunks.WriteChunk) {
	used := 0
	for _, w := range list {
		if w.Room() > 0 {
			used++
		}
	}
	if c := r.Compound; c != nil && c.Err == nil && !r.Whole && used > movedOps(c) {
		m.violate("RPCRDMA-036", "%d used Write chunks, %d operations with an eligible result", used, movedOps(c))
	}
}
