package server

import (
	"slices"

	"github.com/stag-rdma/stag/xdr"
)

// Cred is who a caller claims to be.
type Cred struct {
	UID, GID uint32
	GIDs     []uint32
	// Anonymous says that the caller sent AUTH_NONE; its ids have no meaning.
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

// squash returns c as the export sees it.
func (e *export) squash(c Cred) Cred {
	switch {
	case c.Anonymous || e.Squash == SquashAll:
		return Cred{UID: e.AnonUID, GID: e.AnonGID, Machine: c.Machine}
	case e.Squash == SquashNone:
		return c
	}
	if c.UID == 0 {
		c.UID = e.AnonUID
	}
	if c.GID == 0 {
		c.GID = e.AnonGID
	}
	if i := slices.Index(c.GIDs, 0); i >= 0 {
		c.GIDs = slices.Clone(c.GIDs)
		for ; i < len(c.GIDs); i++ {
			if c.GIDs[i] == 0 {
				c.GIDs[i] = e.AnonGID
			}
		}
	}
	return c
}

// in reports whether c is a member of a group.
func (c *Cred) in(gid uint32) bool { return c.GID == gid || slices.Contains(c.GIDs, gid) }

// root reports whether c may do everything.
func (c *Cred) root() bool { return c.UID == 0 }
