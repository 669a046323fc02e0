// Package execute runs the calls of a server, whichever way they came: those that must not run twice once, none that
// comes too late, and without letting a panic of a handler reach the others.
package execute

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/internal/accept"
	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/transport/gss"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// Executor runs the calls of a server or listener. It is safe for concurrent use.
type Executor struct {
	Duplicates *Duplicates
	ctx        context.Context // of all handlers
	ctr        *memory.Counters
	log        *zap.Logger
	sampled    *zap.Logger // because peers can cause messages at will
	print      bool        // the panic of a handler goes to standard error too, because nobody reads the log
	gss        *gss.Server // nil: no call is protected
	paces      paces
	came       origins
}

// New returns an Executor whose handlers stop with ctx. print says that nobody reads the log. g, if not nil, has the
// contexts of RPCSEC_GSS.
func New(ctx context.Context, d *Duplicates, ctr *memory.Counters, log *zap.Logger, print bool, g *gss.Server) *Executor {
	return &Executor{Duplicates: d, ctx: ctx, ctr: ctr, log: log, sampled: accept.Sampled(log), print: print, gss: g}
}

// Opens reports whether Open is to look at a call, whose credential is then no reason to refuse it before.
func (s *Executor) Opens(h *xdr.CallHeader) bool {
	return s.gss != nil && h.Cred.Flavor == xdr.RPCSECGSS
}

// openHere is the size of protected arguments that the goroutine which reads opens itself. Choice: 16 KiB take some 30 us.
const openHere = 16 << 10

// OpensApart reports whether to open n octets of arguments takes so long that the goroutine which reads leaves it to another.
func (s *Executor) OpensApart(h *xdr.CallHeader, n int) bool {
	return n > openHere && s.Opens(h) && h.Cred.Protected()
}

// Open checks a call that Opens has said yes to, and takes its arguments: then req has the plain ones. It returns false
// if the call gets no answer. It comes before all that looks into the arguments.
func (s *Executor) Open(req *rpc.Request, resp *rpc.Response) bool {
	o := s.gss.Open(peeraddr.Share(req.RemoteAddr), &req.CallHeader, req.Args, time.Now())
	if o.Err != nil {
		s.sampled.Warn("transport: RPCSEC_GSS refused", zap.Stringer("client", req.RemoteAddr), zap.Uint32("rpc.xid", req.XID), zap.Error(o.Err))
	}
	req.GSS = o.Call
	switch o.Verdict {
	case gss.Run:
		s.ctr.GSS[o.Call.Service-gss.None].Add(1)
		req.Args = o.Args
	case gss.Answer:
		if o.Err != nil {
			s.ctr.GSSRefused.Add(1)
		}
		req.Args = nil
		resp.Results = append(resp.Results, o.Results...)
	case gss.Garble:
		resp.Refuse(xdr.ReplyHeader{XID: req.XID, Verf: o.Call.Verifier(), Accept: xdr.GarbageArgs})
	case gss.Deny:
		resp.Refuse(xdr.ReplyHeader{XID: req.XID, Denied: true, Reject: xdr.AuthError, AuthStat: o.Stat})
	case gss.Drop:
		s.ctr.Dropped.Add(1)
		return false
	}
	return true
}

// Contexts returns how many contexts of RPCSEC_GSS there are.
func (s *Executor) Contexts() int {
	if s.gss == nil {
		return 0
	}
	return s.gss.Contexts()
}

// PaceOf returns the pace of a call that may block.
func (s *Executor) PaceOf(t *rpc.Traits, req *rpc.Request) *Pace { return s.paces.of(t.Class, req) }

// Turn is called for each connection in the order in which they are accepted.
func (s *Executor) Turn() Turn { return Turn(s.came.turns.Add(1)) }

// Enter notes that a connection has come, whose turn it was or, if that is 0, is now. Leave forgets it.
func (s *Executor) Enter(conn net.Conn, turn Turn) *Origin { return s.came.enter(conn, turn) }

// Leave forgets a connection.
func (s *Executor) Leave(x *Origin) { s.came.leave(x) }

// Execute runs a call with these traits, or answers a duplicate with the reply to the first one. It returns false if the
// call must not be answered.
func (s *Executor) Execute(ctx context.Context, h rpc.Handler, t *rpc.Traits, req *rpc.Request, resp *rpc.Response, from *Origin) bool {
	g := req.GSS
	if g == nil {
		return s.execute(ctx, h, t, req, resp, from)
	}
	// The cache of duplicates has plain replies: each transmission is protected by itself.
	if !g.Answered() && !s.execute(ctx, h, t, req, resp, from) {
		return false
	}
	protect(g, resp)
	return true
}

// protect makes the reply to g, whose caller it addresses, out of that to the plain call: it has a verifier, and its
// results are protected as the arguments were. They are an item, which nobody may reduce.
func protect(g *gss.Call, resp *rpc.Response) {
	resp.Verf = g.Verifier() // one that is denied has none
	if !resp.HasResults() || g.Answered() || g.Service == gss.None {
		return
	}
	// The plain results are not put together first: g copies each part once, into the memory that leaves.
	var parts [][]byte
	from := 0
	for _, it := range resp.Lent.Items {
		parts = append(parts, resp.Results[from:it.Pos], it.Data, memory.Pad(it.Data))
		from = it.Pos
	}
	body := g.AppendResults(resp.Scratch(resp.Size() + gss.MaxOverhead)[:0], append(parts, resp.Results[from:])...)
	resp.Results, resp.Lent.Items = resp.Results[:0], resp.Lent.Items[:0]
	d := xdr.NewDecoder(body)
	resp.AppendItem(d.Opaque(len(body)))
	resp.Results = append(resp.Results, d.Rest()...) // the checksum, if it has one
}

// Protecting returns how many octets the reply to a call may take beyond the room that is held for it: if RPCSEC_GSS protects
// it, its size is known only when the arguments are plain, at most most, and it is protected in memory of its own.
func Protecting(req *rpc.Request, b chunks.Binding, room, most int) int {
	g := req.GSS
	if g == nil || g.Answered() || g.Service == gss.None {
		return 0
	}
	n := room
	if rest, item, ok := b.MaxResults(req.Prog, req.Vers, req.Proc, req.Args); ok {
		n = min(rest+item, most)
	}
	return max(0, 2*n+gss.MaxOverhead-room)
}

func (s *Executor) execute(ctx context.Context, h rpc.Handler, t *rpc.Traits, req *rpc.Request, resp *rpc.Response, from *Origin) bool {
	// The traits are those that h has told, because what one port refuses, another one may serve.
	changes := t.Once && !resp.Refused()
	switch {
	case changes && s.Duplicates.Covers(req):
		return s.executeOnce(ctx, h, t, req, resp, from)
	case changes:
		c, ok := from.begin(ctx, changeOf(t, req))
		if s.isLate(!ok) {
			return false
		}
		defer from.done(c)
	case s.isLate(from.hasEnded()):
		return false
	}
	s.run(ctx, h, req, resp)
	return !resp.Dropped()
}

// isLate counts a call that comes too late to be executed.
func (s *Executor) isLate(late bool) bool {
	if late {
		s.ctr.Late.Add(1)
	}
	return late
}

// executeOnce is Execute for a call that must run once. It runs in the context of the executor: the end of
// the connection must not cut it short, because its reply is for the next connection.
func (s *Executor) executeOnce(ctx context.Context, h rpc.Handler, t *rpc.Traits, req *rpc.Request, resp *rpc.Response, from *Origin) bool {
	e, old := s.Duplicates.Begin(ctx, req) // before it is asked whether the call is late: who has the reply may get it
	if old != nil {
		old.restore(resp)
		return true
	}
	if e == nil {
		return false
	}
	// Whatever happens, whoever waits for this call must learn of its end. Without a reply it is forgotten, and may run.
	var reply *SavedReply
	defer func() { s.Duplicates.End(e, reply) }()
	if s.ctx.Err() != nil { // closed: calls that ran then were forgotten, and this may be one of them
		resp.Fail(xdr.SystemErr)
		return true
	}
	c, ok := from.begin(ctx, changeOf(t, req))
	if s.isLate(!ok) {
		return false
	}
	defer from.done(c)
	s.run(s.ctx, h, req, resp)
	if resp.Dropped() {
		return false
	}
	left := deferred(req)
	if s.ctx.Err() != nil || left != nil && left.Failed() { // the handler has given up halfway; the call may come again
		return true
	}
	if left != nil { // only now all octets are known that tell this call from others
		sum := sumOf(req)
		switch {
		case sum.Known:
		case !left.Begun(): // refused: nothing has run
			return true
		default: // the rest says which call has run; if it cannot be read, no other call gets this reply
			if _, err := left.Fetch(ctx); err == nil {
				sum = sumOf(req)
			}
		}
		s.Duplicates.learn(e, sum)
	}
	reply = save(resp)
	return true
}

// Broken counts and logs the panic v on what a connection brought. why, which has the stack, is why it ends.
func (s *Executor) Broken(v any, why error) {
	s.ctr.Panics.Add(1)
	if s.print {
		fmt.Fprintln(os.Stderr, why)
	}
	s.log.Error("panic: the connection ends", zap.Any("panic", v), zap.Error(why))
}

// run serves req. A panic of the handler becomes a log line and a count.
func (s *Executor) run(ctx context.Context, h rpc.Handler, req *rpc.Request, resp *rpc.Response) {
	if resp.Refused() {
		return
	}
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		s.ctr.Panics.Add(1)
		stack := debug.Stack()
		if s.print { // a bug must not stay hidden because nobody asked for a log
			fmt.Fprintf(os.Stderr, "transport: handler panicked in call 0x%08x of program %d, procedure %d: %v\n%s",
				req.XID, req.Prog, req.Proc, v, stack)
		}
		s.log.Error("transport: handler panicked", zap.Any("panic", v),
			zap.Uint32("rpc.xid", req.XID), zap.Uint32("rpc.program", req.Prog),
			zap.Uint32("rpc.procedure", req.Proc), zap.ByteString("stack", stack))
		resp.Fail(xdr.SystemErr)
	}()
	h.ServeRPC(ctx, req, resp)
}

// paces are moving averages of how long calls that may block take, by procedure and class (see
// [rpc.Handler]). Those of a class whose average is short run in the goroutine that reads them: to hand
// over a WRITE of 64 KiB costs more than to run it. Two classes may share an average.
type paces [256]Pace

// Pace is the average of a class in ns, 0 as long as none of its calls has ended.
type Pace struct {
	avg  atomic.Int64
	most atomic.Int64 // octets of large replies, falling slowly
}

// Largest returns how many octets the replies to such calls have taken lately.
func (p *Pace) Largest() int { return int(p.most.Load()) }

// Sent notes a reply of n octets.
func (p *Pace) Sent(n int) {
	most := p.most.Load()
	p.most.Store(max(int64(n), most-most/256))
}

// shortShare: a call is short if it takes one part in shortShare of Reading.HandlerLimit: 125 us with
// the default. That is above a WRITE or READ of 64 KiB in memory (10 to 30 us) and below one that
// waits for a disk, beside which others should run.
const shortShare = 8

// of returns the pace of a call's class.
func (p *paces) of(class uint32, req *rpc.Request) *Pace {
	h := (req.Prog*31+req.Proc)*31 + class
	return &p[h*2654435761>>24]
}

// Short reports whether the calls of the class may run where they were read. Without a watchdog none
// may.
func (p *Pace) Short(grace time.Duration) bool {
	return grace > 0 && time.Duration(p.avg.Load()) <= grace/shortShare
}

// Ran notes that a call has run for d. Beyond the grace d does not count: then the watchdog has let
// another goroutine read.
func (p *Pace) Ran(d, grace time.Duration) {
	avg := p.avg.Load()
	p.avg.Store(avg + (int64(min(d, grace))-avg)/8)
}
