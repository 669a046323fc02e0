package service

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"

	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Mux serves procedures of one or more programs. It is an [rpc.Handler]; its zero value serves none. Add all
// procedures before the first call. Handlers may block.
type Mux struct {
	// Next serves the programs of which the Mux has no procedure. If nil, they are PROG_UNAVAIL.
	Next rpc.Handler
	// Intercept runs around each call of a procedure, the first outermost: not around those of Next, and of
	// procedures that nobody serves.
	Intercept []Interceptor

	procs []procedure
}

// Interceptor runs around calls of a Mux: to log, to count, to refuse, to recover. next makes the rest of the call and
// returns the error of its handler, or a *xdr.RPCStatusError if the arguments do not decode. What the Interceptor
// returns is answered as if the handler had returned it; a nil error without next, by an empty result. It may hand on
// another context, made from ctx. req is that of [Exchange].
type Interceptor func(ctx context.Context, req *rpc.Request, next func(context.Context) error) error

// procedure is an entry of a Mux.
type procedure struct {
	prog, vers, proc uint32
	once             bool
	memory           func(args []byte) int
	serve            func(ctx context.Context, req *rpc.Request, resp *rpc.Response) error
}

// Handle lets fn serve p. It panics if p is served already or has number 0, if fn is nil, and if a type of p has no
// XDR form.
//
// The item of args is lent until fn returns. The item of its result is borrowed until the reply was sent, so it
// must not change: [Exchange] has memory for it, and tells when it is free. fn may return the item of args as
// that of its result. A nil result is an empty one.
//
// An error of fn is answered by the results that have it as their status (see the package comment), a
// *xdr.RPCStatusError by that status. Any other is logged with package slog, as is a result that cannot be
// encoded, and the client sees SYSTEM_ERR; also if fn panics.
func Handle[Args, Res any](m *Mux, p Proc[Args, Res], fn func(ctx context.Context, args *Args) (*Res, error)) {
	in, out := mustForm(reflect.TypeFor[Args]()), mustForm(reflect.TypeFor[Res]())
	if _, e := m.find(p.Prog, p.Vers, p.Proc); e != nil {
		panic(fmt.Sprintf("service: program %#x, version %d, procedure %d is served already", p.Prog, p.Vers, p.Proc))
	}
	mustServe(p.Prog, p.Vers, p.Proc)
	if fn == nil {
		panic(fmt.Sprintf("service: program %#x, version %d, procedure %d has no handler", p.Prog, p.Vers, p.Proc))
	}
	serve := func(ctx context.Context, req *rpc.Request, resp *rpc.Response) error {
		var res *Res
		call := func(ctx context.Context) (err error) {
			args := new(Args)
			if in.Unmarshal(req.Args, nil, args) != nil {
				return &xdr.RPCStatusError{Accept: xdr.GarbageArgs}
			}
			res, err = fn(ctx, args)
			return err
		}
		for _, around := range slices.Backward(m.Intercept) {
			next := call
			call = func(ctx context.Context) error { return around(ctx, req, next) }
		}
		err := call(context.WithValue(ctx, exchangeKey{}, &exchange{req, resp}))
		if res == nil || err != nil {
			res = new(Res)
		}
		if err != nil && !out.fail(res, err) {
			return err
		}
		return out.results(req, resp, res)
	}
	m.procs = append(m.procs, procedure{p.Prog, p.Vers, p.Proc, p.Once, in.Memory, serve})
}

// versions are those of a program that a Mux serves.
type versions struct {
	low, high uint32
	some, has bool // any, and the one looked for
}

// find returns the entry of a procedure, nil if there is none, and the versions of its program.
func (m *Mux) find(prog, vers, proc uint32) (v versions, found *procedure) {
	for i := range m.procs {
		e := &m.procs[i]
		if e.prog != prog {
			continue
		}
		if !v.some {
			v.low, v.high, v.some = e.vers, e.vers, true
		}
		v.low, v.high = min(v.low, e.vers), max(v.high, e.vers)
		if e.vers == vers {
			v.has = true
			if e.proc == proc {
				found = e
			}
		}
	}
	return v, found
}

// ServeRPC implements [rpc.Handler]. It answers what it does not serve as RFC 5531 Section 9 says.
func (m *Mux) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	v, p := m.find(req.Prog, req.Vers, req.Proc)
	switch {
	case !v.some && m.Next != nil:
		m.Next.ServeRPC(ctx, req, resp)
	case !v.some:
		resp.Stat = xdr.ProgUnavail
	case !v.has:
		resp.ProgMismatch(v.low, v.high)
	case p == nil && req.Proc == 0: // takes and returns void
	case p == nil:
		resp.Stat = xdr.ProcUnavail
	default:
		if err := p.serve(ctx, req, resp); err != nil {
			refuse(req, resp, err)
		}
	}
}

// refuse answers a call whose handler has failed.
func refuse(req *rpc.Request, resp *rpc.Response, err error) {
	s, ok := err.(*xdr.RPCStatusError) //nolint:errorlint // a wrapped one is that of another server
	switch {
	case ok && s.Denied:
		resp.Deny(s.AuthStat)
	case ok && s.Accept != xdr.Success:
		resp.Stat, resp.Low, resp.High = s.Accept, s.Low, s.High
	default:
		resp.Stat = xdr.SystemErr
		slog.Error("service: call failed", "program", fmt.Sprintf("%#x", req.Prog), "version", req.Vers, "procedure", req.Proc,
			"xid", fmt.Sprintf("0x%08x", req.XID), "client", req.RemoteAddr, "err", err)
	}
}

// results makes *res the results of a call.
func (f *form) results(req *rpc.Request, resp *rpc.Response, res any) error {
	b, pos, item, err := f.Marshal(res)
	if err != nil || pos == 0 {
		resp.Results = append(resp.Results, b...)
		return err
	}
	if within(item, req.Args) { // which are lent for a shorter time
		item = append(resp.Scratch(len(item))[:0], item...)
	}
	resp.Results = append(resp.Results, b[:pos-4]...)
	resp.AppendItem(item)
	resp.Results = append(resp.Results, b[pos:]...)
	return nil
}

// within reports whether part begins in whole.
func within(part, whole []byte) bool {
	return reflect.ValueOf(part).Pointer()-reflect.ValueOf(whole).Pointer() < uintptr(len(whole))
}

type exchangeKey struct{}

type exchange struct {
	req  *rpc.Request
	resp *rpc.Response
}

// Exchange returns the call that a handler of a Mux serves, from the context that it got: to see who calls
// and to call him back, or to use pooled memory for a result (Response.Scratch) and to learn when a result was
// sent (Response.OnSent). Both are valid until the handler returns. They are nil in other contexts.
func Exchange(ctx context.Context) (*rpc.Request, *rpc.Response) {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x.req, x.resp
	}
	return nil, nil
}

// next returns Next for the programs that it serves, else nil.
func (m *Mux) next(prog uint32) rpc.Handler {
	if v, _ := m.find(prog, 0, 0); v.some {
		return nil
	}
	return m.Next
}

// Describe implements the method of [rpc.Handler]: any procedure may block, those with Once must not run twice, and
// the memory is that of the decoded arguments. What the Mux does not serve is described by Next.
func (m *Mux) Describe(req *rpc.Request) rpc.Traits {
	v, p := m.find(req.Prog, req.Vers, req.Proc)
	switch {
	case !v.some:
		return rpc.Describe(m.Next, req)
	case p == nil:
		return rpc.Traits{Blocks: true}
	}
	return rpc.Traits{Blocks: true, Once: p.once, Memory: p.memory(req.Args)}
}

// Ready is that of Next.
func (m *Mux) Ready(ctx context.Context, req *rpc.Request) bool {
	return rpc.Ready(ctx, m.next(req.Prog), req)
}
