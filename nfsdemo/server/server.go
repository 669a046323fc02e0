package server

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport/gss"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
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

// pullFirst is up to how many octets of data a WRITE is looked at when they have come, as if they had been in the call. To see first
// whether it would be refused costs a stat: a seventh of the server's processor time for 4 KiB.
const pullFirst = 64 << 10

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
		t.Lazy, t.Once, t.Changes[0] = a.Count > pullFirst, true, a.Handle.Hash()
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

// defaultMaxIO is in octets.
const defaultMaxIO = 1 << 20

// User is a user of this machine.
type User struct {
	UID  uint32   // 2^32-1: not known which
	GIDs []uint32 // the primary group first; empty: not known, and no group is believed
}

// Config says what a server serves. New copies it. A setting out of range is an error that wraps
// rpc.ErrConfig.
type Config struct {
	// Exports are the file systems that can be mounted: at least one, with different paths.
	Exports []Export
	// Local, if not nil, says who on this machine is at the other end of a connection. A user
	// other than root may claim only his own uid, and gets only his own groups. Other calls, and all of one who
	// is not known, are denied with AUTH_BADCRED, except where no identity matters. It must be fast.
	Local func(a net.Addr) (u User, ok bool)
	// Groups, if not nil, says which groups a uid has, in place of those of AUTH_SYS other than the first (the gid), of which
	// there is room for 16. With wait it may take some time; without, it returns false if it would.
	Groups func(uid uint32, wait bool) (gids []uint32, ok bool)
	// Principal says which user of this machine a principal is, who has proved to be the caller. Those that it does not
	// know are anonymous. If nil, it knows none. It may take some time.
	Principal func(gss.Principal) (u User, ok bool)
	// Named says whether a name of Client.Names is that of an address. While that is not known it waits for ctx, and
	// returns an error: calls of NFS do not wait, and get NFS3ERR_JUKEBOX. Without it no client may have names.
	Named func(ctx context.Context, name string, ip netip.Addr) (bool, error)
	// Mounted is what Mounts returned before this process, the oldest first. MountsChanged, if not nil, is called after each
	// change of the list, by calls that wait for it.
	Mounted       []Mount
	MountsChanged func()
	// MaxIO limits the octets of a READ or WRITE, and FSINFO announces it. It must be a multiple
	// of 4096 up to 1 GiB. If zero, 1 MiB.
	MaxIO int
	// Logger gets a line for every backend error that is not an NFS status. If nil, nothing is
	// logged.
	Logger *zap.Logger
}

// fill checks c and returns a copy with the defaults in place.
func (c *Config) fill() (*Config, error) {
	out := *c
	out.MaxIO = cmp.Or(out.MaxIO, defaultMaxIO)
	if len(out.Exports) == 0 {
		return nil, errors.New("server: no exports: set Config.Exports")
	}
	err := setting.Check(setting.Int("MaxIO", out.MaxIO, 4096, 1<<30))
	if err == nil && out.MaxIO%4096 != 0 {
		err = setting.Error("MaxIO is %d, want a multiple of 4096", out.MaxIO)
	}
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	if out.Logger == nil {
		out.Logger = zap.NewNop()
	}
	return &out, nil
}

// Program is an RPC program with one range of versions.
type Program struct {
	Prog, Low, High uint32
	// Procs is the number of procedures, which are numbered from 0.
	Procs uint32
	// Serve answers a call of a procedure other than 0. It returns an error if the arguments
	// cannot be decoded, which becomes GARBAGE_ARGS.
	Serve func(ctx context.Context, c *Call) error
	// Describe tells about a call of a procedure other than 0. If nil, nothing is known. Where it says Lazy, Serve takes
	// the data of read chunks itself, with Call.Opaque.
	Describe func(proc uint32, args []byte) rpc.Traits
	// ready reports, for a lazy call without its data, whether they may be pulled at once; see
	// rpc.Handler. It must not block. If nil, Serve takes them.
	ready func(ctx context.Context, c *Call) bool
	// weak reports whether a procedure other than 0 needs no identity. If nil, none needs one.
	weak func(proc uint32) bool
}

// Call is one call to a Program.
type Call struct {
	*rpc.Request
	Resp *rpc.Response
	Cred Cred

	known bool // the user of the other end is known
}

// Mux dispatches calls to programs. It is a rpc.Handler. Add all programs before the first call;
// after that it is safe for concurrent use.
type Mux struct {
	programs  []Program
	local     func(a net.Addr) (u User, ok bool)  // Config.Local
	principal func(gss.Principal) (User, bool)    // Config.Principal
	groups    func(uint32, bool) ([]uint32, bool) // Config.Groups
}

var _ rpc.Handler = (*Mux)(nil)

// Add adds a program.
func (m *Mux) Add(p Program) { m.programs = append(m.programs, p) }

// find returns the program with a number, or nil.
func (m *Mux) find(prog uint32) *Program {
	for i := range m.programs {
		if m.programs[i].Prog == prog {
			return &m.programs[i]
		}
	}
	return nil
}

// ServeRPC answers one call, or says why not, in the order of RFC 5531 Section 9.
func (m *Mux) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	cred, known, stat := m.credOf(req)
	if stat != xdr.AuthOK {
		resp.Deny(stat)
		return
	}
	p := m.find(req.Prog)
	switch {
	case p == nil:
		resp.Stat = xdr.ProgUnavail
	case req.Vers < p.Low || req.Vers > p.High:
		resp.ProgMismatch(p.Low, p.High)
	case req.Proc >= p.Procs:
		resp.Stat = xdr.ProcUnavail
	case req.Proc == 0: // takes and returns void
	default:
		c := Call{Request: req, Resp: resp, Cred: cred, known: known}
		if err := p.Serve(ctx, &c); err != nil {
			resp.Results = resp.Results[:0]
			resp.Stat = xdr.GarbageArgs
		}
	}
}

// groupsClass is that of calls that wait for the groups of their user.
const groupsClass = 1<<32 - 1

// Describe tells about a call (rpc.Handler). One that is only refused has no traits.
func (m *Mux) Describe(req *rpc.Request) (t rpc.Traits) {
	p := m.find(req.Prog)
	if p != nil && p.Describe != nil && req.Vers >= p.Low && req.Vers <= p.High && req.Proc != 0 && req.Proc < p.Procs {
		t = p.Describe(req.Proc, req.Args)
	}
	if m.asksGroups(req) {
		t.Blocks, t.Class = true, groupsClass
	}
	return t
}

// Ready reports whether the data of a lazy call may be pulled at once (rpc.Handler).
func (m *Mux) Ready(ctx context.Context, req *rpc.Request) bool {
	p := m.find(req.Prog)
	if m.asksGroups(req) {
		return false
	}
	cred, known, stat := m.credOf(req)
	if p == nil || p.ready == nil || stat != xdr.AuthOK {
		return false
	}
	return p.ready(ctx, &Call{Request: req, Cred: cred, known: known})
}
