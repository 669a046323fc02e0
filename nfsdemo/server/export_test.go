package server

import (
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// What the tests need of the inside: the tables of statuses, who a caller is taken for, and what the
// first export serves, by handles that no mount has given.

var (
	Fit         = fit
	May         = may
	MountStatus = mountStatus
	StatusOf    = statusOf
	CredOf      = (*Mux).credOf
)

func (s *Server) FirstFS() backend.FS { return s.table.Load().list[0].FS }
func (s *Server) FirstHandle(n backend.Node) nfs3.FileHandle {
	return s.table.Load().list[0].appendHandle(nil, n)
}
func (s *Server) FirstSquash(c Cred) Cred { return s.table.Load().list[0].squash(c) }
