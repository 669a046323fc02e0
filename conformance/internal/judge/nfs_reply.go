package judge

import (
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// nfsReply judges the results of NFSv3 against what was asked.
func (m *rpcMachine) nfsReply(r *decode.RPC, c *rpcCall) {
	if res, ok := r.Message.(nfs3.Result); !c.nfs.known || ok && res.Stat() != nfs3.OK {
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
