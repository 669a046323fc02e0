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

// procs are the procedures by number.
var procs = [nfs3.ProcCount]func(*op, *xdr.Decoder) error{
	nfs3.ProcGetAttr:     (*op).getAttr,
	nfs3.ProcSetAttr:     by((*op).setAttr),
	nfs3.ProcLookup:      (*op).lookup,
	nfs3.ProcAccess:      (*op).access,
	nfs3.ProcReadLink:    (*op).readLink,
	nfs3.ProcRead:        (*op).read,
	nfs3.ProcWrite:       (*op).write,
	nfs3.ProcCreate:      by((*op).create),
	nfs3.ProcMkdir:       by((*op).mkdir),
	nfs3.ProcSymlink:     by((*op).symlink),
	nfs3.ProcMknod:       by((*op).mknod),
	nfs3.ProcRemove:      by((*op).remove),
	nfs3.ProcRmdir:       by((*op).rmdir),
	nfs3.ProcRename:      by((*op).rename),
	nfs3.ProcLink:        by((*op).link),
	nfs3.ProcReadDir:     (*op).readDir,
	nfs3.ProcReadDirPlus: (*op).readDirPlus,
	nfs3.ProcFSStat:      by((*op).fsStat),
	nfs3.ProcFSInfo:      by((*op).fsInfo),
	nfs3.ProcPathConf:    by((*op).pathConf),
	nfs3.ProcCommit:      by((*op).commit),
}

// by is a procedure whose arguments and results are sent whole: do fills the results, and its error is their status. The compiler
// puts both on the heap, so those that are called most, and those with an item, decode and encode for themselves.
func by[A, R any, PA interface {
	*A
	xdr.Message
}, PR interface {
	*R
	nfs3.Result
}](do func(o *op, args *A, res *R) error) func(*op, *xdr.Decoder) error {
	return func(o *op, d *xdr.Decoder) error {
		var args A
		var res R
		if err := xdr.Decode(d, PA(&args)).Err(); err != nil {
			return err
		}
		err := do(o, &args, &res)
		*PR(&res).Stat() = o.status(err)
		o.c.Resp.Results = xdr.Encode(o.c.Resp.Results, PR(&res))
		return nil
	}
}

// serveNFS answers one NFS call.
func (s *Server) serveNFS(ctx context.Context, c *Call) error {
	o := op{s: s, c: c, ctx: ctx, proc: nfs3.Proc(c.Proc)}
	defer o.leave()
	d := xdr.NewDecoder(c.Args)
	return procs[o.proc](&o, &d)
}

// describe sorts READ and WRITE by how long they take: by export, which says on what disk the file is,
// by size, and by how durable the data must be. A call changes the files and directories whose handles it has.
func (s *Server) describe(proc uint32, args []byte) (t rpc.Traits) {
	d := xdr.NewDecoder(args) // a call that cannot be decoded takes no time
	var handle nfs3.FileHandle
	switch p := nfs3.Proc(proc); p {
	case nfs3.ProcGetAttr, nfs3.ProcLookup, nfs3.ProcAccess, nfs3.ProcReadLink, nfs3.ProcFSStat, nfs3.ProcFSInfo, nfs3.ProcPathConf:
		return t // they read what the kernel usually has in memory: nothing waits for a disk
	case nfs3.ProcRead:
		var a nfs3.ReadArgs
		xdr.Decode(&d, &a)
		handle, t.Class = a.Handle, uint32(bits.Len32(a.Count))
	case nfs3.ProcWrite:
		var a nfs3.WriteArgs
		xdr.Decode(&d, a.Head())
		t.Lazy, t.Once, t.Changes[0] = true, true, a.Handle.Hash()
		handle, t.Class = a.Handle, uint32(a.Stable)<<6|uint32(bits.Len32(a.Count))
	default:
		t.Changes, t.Once = p.Changes(args)
	}
	if t.Blocks = s.blocking(); len(handle) >= handleHead && t.Class != 0 {
		t.Class |= binary.BigEndian.Uint32(handle) << 8
	}
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
