package server

import (
	"context"
	"net"

	"github.com/stag-rdma/stag/transport/gss"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

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
	programs   []Program
	requireSys bool                                // AUTH_NONE is refused, except where weak of a program allows it
	local      func(a net.Addr) (u User, ok bool)  // Config.Local
	principal  func(gss.Principal) (User, bool)    // Config.Principal
	groups     func(uint32, bool) ([]uint32, bool) // Config.Groups
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
	case cred.Anonymous && req.GSS == nil && m.requireSys && p.weak != nil && !p.weak(req.Proc):
		resp.Deny(xdr.AuthTooWeak)
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
	if p == nil || p.ready == nil || stat != xdr.AuthOK || cred.Anonymous && m.requireSys {
		return false
	}
	return p.ready(ctx, &Call{Request: req, Cred: cred, known: known})
}
