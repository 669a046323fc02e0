package server

import (
	"slices"

	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

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
