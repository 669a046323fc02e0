package server

import (
	"context"
	"encoding/binary"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Server answers NFS and MOUNT calls. It is a rpc.Handler and safe for concurrent use.
type Server struct {
	Mux

	cfg     *Config
	setting sync.Mutex // held by SetExports
	table   atomic.Pointer[exportTable]
	locks   stripes
	mounts  mountTable
}

// New makes a server. The error says which field of cfg is wrong.
func New(cfg *Config) (*Server, error) {
	cfg, err := cfg.fill()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg}
	s.mounts.all, s.mounts.changed = slices.Clone(cfg.Mounted[max(0, len(cfg.Mounted)-maxMounts):]), cfg.MountsChanged
	if err := s.SetExports(cfg.Exports); err != nil {
		return nil, err
	}
	for _, e := range s.table.Load().list {
		if e.info.Owners { // otherwise no id is believed, and a wrong one does not matter
			s.local, s.principal, s.groups = cfg.Local, cfg.Principal, cfg.Groups
		}
	}
	s.requireSys = cfg.RequireSys
	s.Add(Program{
		Prog: nfs3.Program, Low: nfs3.Version, High: nfs3.Version, Procs: nfs3.ProcCount,
		Serve: s.serveNFS, Describe: s.describe, ready: s.nfsReady,
		weak: func(proc uint32) bool { return nfs3.Proc(proc) == nfs3.ProcFSInfo },
	})
	s.Add(s.acls())
	s.Add(s.quotas())
	s.Add(Program{
		Prog: mount3.Program, Low: mount3.Version1, High: mount3.Version, Procs: mount3.ProcCount,
		Serve: s.serveMount,
		Describe: func(proc uint32, _ []byte) rpc.Traits {
			return rpc.Traits{Blocks: mount3.Proc(proc) == mount3.ProcMnt && s.blocking()}
		},
	})
	return s, nil
}

// procs are the handlers by procedure number.
var procs = [nfs3.ProcCount]func(*op, *xdr.Decoder) error{
	nfs3.ProcGetAttr:     (*op).getAttr,
	nfs3.ProcSetAttr:     (*op).setAttr,
	nfs3.ProcLookup:      (*op).lookup,
	nfs3.ProcAccess:      (*op).access,
	nfs3.ProcReadLink:    (*op).readLink,
	nfs3.ProcRead:        (*op).read,
	nfs3.ProcWrite:       (*op).write,
	nfs3.ProcCreate:      (*op).create,
	nfs3.ProcMkdir:       (*op).mkdir,
	nfs3.ProcSymlink:     (*op).symlink,
	nfs3.ProcMknod:       (*op).mknod,
	nfs3.ProcRemove:      (*op).remove,
	nfs3.ProcRmdir:       (*op).rmdir,
	nfs3.ProcRename:      (*op).rename,
	nfs3.ProcLink:        (*op).link,
	nfs3.ProcReadDir:     (*op).readDir,
	nfs3.ProcReadDirPlus: (*op).readDirPlus,
	nfs3.ProcFSStat:      (*op).fsStat,
	nfs3.ProcFSInfo:      (*op).fsInfo,
	nfs3.ProcPathConf:    (*op).pathConf,
	nfs3.ProcCommit:      (*op).commit,
}

// serveNFS answers one NFS call.
func (s *Server) serveNFS(ctx context.Context, c *Call) error {
	o := op{s: s, c: c, ctx: ctx, proc: nfs3.Proc(c.Proc)}
	defer o.leave()
	d := xdr.NewDecoder(c.Args)
	return procs[o.proc](&o, &d)
}

// nfsMayBlock reports whether a procedure may wait for a disk: those that read or write data or
// lists, and those that must be durable. The others read what the kernel usually has in memory.
func (s *Server) nfsMayBlock(proc uint32) bool {
	switch nfs3.Proc(proc) {
	case nfs3.ProcGetAttr, nfs3.ProcLookup, nfs3.ProcAccess, nfs3.ProcReadLink,
		nfs3.ProcFSStat, nfs3.ProcFSInfo, nfs3.ProcPathConf:
		return false
	default:
		return s.blocking()
	}
}

// describe sorts READ and WRITE by how long they take: by export, which says on what disk the file is,
// by size, and by how durable the data must be. A call changes the files and directories whose handles it has.
func (s *Server) describe(proc uint32, args []byte) (t rpc.Traits) {
	t.Blocks, t.Lazy = s.nfsMayBlock(proc), nfs3.Proc(proc) == nfs3.ProcWrite
	t.Changes, t.Once = nfs3.Proc(proc).Changes(args)
	if !t.Once && nfs3.Proc(proc) != nfs3.ProcRead { // nobody asks what it changes
		return t
	}
	d := xdr.NewDecoder(args)
	var handle nfs3.FileHandle
	class := uint32(0)
	switch nfs3.Proc(proc) {
	case nfs3.ProcRead:
		var a nfs3.ReadArgs
		xdr.Decode(&d, &a) // a call that cannot be decoded takes no time
		handle, class = a.Handle, uint32(bits.Len32(a.Count))
	case nfs3.ProcWrite:
		var a nfs3.WriteArgs
		xdr.Decode(&d, a.Head())
		handle, class = a.Handle, uint32(a.Stable)<<6|uint32(bits.Len32(a.Count))
	default:
	}
	if len(handle) >= 4 && class != 0 {
		class |= binary.BigEndian.Uint32(handle) << 8
	}
	t.Class = class
	return t
}

// blocking reports whether any export may wait for a disk.
func (s *Server) blocking() bool {
	for _, e := range s.table.Load().list {
		if e.info.MayBlock {
			return true
		}
	}
	return false
}
