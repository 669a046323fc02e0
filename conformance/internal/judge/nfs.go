package judge

import (
	"bytes"
	"errors"
	"strings"

	"github.com/stag-rdma/stag/conformance/internal/decode"
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
	m.buf = r.Message.Append(m.buf[:0])
	if !bytes.Equal(m.buf, r.Body) {
		m.violate("RPC-014", "pad in %s", r.Name)
	}
}

// nfsCall judges the arguments of NFSv3, and keeps what the reply will be judged by.
func (m *rpcMachine) nfsCall(msg nfs3.Message, c *rpcCall) {
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
func handleOf(msg nfs3.Message) string {
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
