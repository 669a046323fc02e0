package server

import (
	"errors"
	"slices"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

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
