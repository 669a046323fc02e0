package push

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/stag-rdma/stag/internal/accept"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// Errors of a Server.
var (
	// ErrNoLog: the server has no log of this name.
	ErrNoLog = errors.New("push: no log of this name")
	// ErrServerClosed is returned by Serve, Load and Log after Close.
	ErrServerClosed = errors.New("push: server closed")
)

// Server has logs that clients append to and the program that calls itself. It is a
// [transport.Handler] for its program: give it to a transport.Server. Set the fields,
// call Load, then serve; they must not change afterwards.
type Server struct {
	// Store keeps the logs. It must be set.
	Store Store
	// Addr is told to clients as the address for commit connections, host:port, which
	// somebody passes to Serve or ServeConn; without host it is that of the RPC server. ""
	// means that there is none, and clients get the rung Append.
	Addr string
	// Allow decides who may have a new log of a name. If nil, everybody. It must not block.
	// Who is not allowed cannot tell whether the name is taken.
	Allow func(req *transport.Request, name string) bool
	// Consume, if set, is called in a goroutine of its own for each log, once, as soon as
	// there is one. Its context ends with Close, which waits for it.
	Consume func(ctx context.Context, l *Log)
	// Began, if set, is called when a session begins: the one before it is over, its records
	// lie before l.Tail(), and the client has not been told yet. Again says that the same
	// instance of the owner goes on, and appends again what was not acknowledged. False
	// refuses the session, with StatusLost. It must not call the Log's Fence.
	Began func(l *Log, id SessionID, again bool) bool
	// Ended, if set, is called when a client has said that it closes a session. Until Fence
	// something of it may still run.
	Ended func(l *Log, id SessionID)
	// Forgetful says that what a session means does not survive this process: an instance
	// that resumes one of before is told StatusFenced.
	Forgetful bool
	// Options say how new logs are made; nil: the defaults of commitlog.Create.
	Options *commitlog.Options
	// Limits bound what clients may have.
	Limits Limits
	// RDMA is the configuration of commit connections; nil: the defaults.
	RDMA *rdmap.Config
	// Next serves the calls of all other programs. If nil, they are answered with
	// PROG_UNAVAIL.
	Next transport.Handler
	// Logger gets a line per session and per failure; nil discards.
	Logger *zap.Logger

	once sync.Once
	lim  Limits

	strangers accept.Strangers // commit connections that have shown no token
	log       *zap.Logger
	ctx       context.Context // ends with Close
	cancel    context.CancelFunc
	opens     *rates
	calls     chan struct{} // a slot per OPEN that runs
	ctr       counters
	wg        sync.WaitGroup // Consume

	mu        sync.Mutex
	logs      map[string]*Log
	octets    uint64 // of all rings, and of those that are being made
	issued    map[string]*issue
	sessions  map[key]*session
	tokens    map[key]*session
	conns     map[*rdmap.Conn]struct{}
	listeners map[net.Listener]struct{}
	closed    bool
}

var _ transport.Handler = (*Server)(nil)

func (s *Server) init() {
	s.once.Do(func() {
		s.lim = s.Limits.fill()
		if s.log = s.Logger; s.log == nil {
			s.log = zap.NewNop()
		}
		s.ctx, s.cancel = context.WithCancel(context.Background())
		s.opens = newRates(float64(s.lim.Opens))
		s.calls = make(chan struct{}, s.lim.MaxOpenCalls)
		s.logs, s.issued = make(map[string]*Log), make(map[string]*issue)
		s.sessions, s.tokens = make(map[key]*session), make(map[key]*session)
		s.conns, s.listeners = make(map[*rdmap.Conn]struct{}), make(map[net.Listener]struct{})
	})
}

// Load opens all logs of the Store. A log that cannot be opened stays, and its owner is
// told StatusLost; the others serve. The errors of all of them are joined, those of the
// store first.
func (s *Server) Load() error {
	s.init()
	names, err := s.Store.Names()
	if err != nil {
		return fmt.Errorf("push: store: %w", err)
	}
	var errs []error
	for _, name := range names {
		if _, err := s.load(name); err != nil {
			errs = append(errs, &Error{Op: "load", Log: name, Err: err})
		}
	}
	return errors.Join(errs...)
}

// Log returns a log that has been loaded or made. Error: ErrNoLog.
func (s *Server) Log(name string) (*Log, error) {
	s.init()
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.logs[name]
	switch {
	case s.closed:
		return nil, ErrServerClosed
	case l == nil:
		return nil, ErrNoLog
	case l.log == nil:
		return nil, &Error{Op: "load", Log: name, Err: l.err}
	}
	return l, nil
}

// MayBlock says which calls wait for a disk (see [transport.Handler]).
func (s *Server) MayBlock(prog, vers, proc uint32) bool {
	if prog == Program {
		return proc == procOpen || proc == procClose || proc == procAppend
	}
	return transport.MayBlock(s.Next, prog, vers, proc)
}

// NonIdempotent says which calls must not run twice: an OPEN would end the session that it
// has begun. An APPEND may, since its records have numbers.
func (s *Server) NonIdempotent(prog, vers, proc uint32) bool {
	if prog == Program {
		return proc == procOpen
	}
	return transport.NonIdempotent(s.Next, prog, vers, proc)
}

// Lazy asks Next about its programs.
func (s *Server) Lazy(prog, vers, proc uint32) bool {
	return prog != Program && transport.Lazy(s.Next, prog, vers, proc)
}

// ServeRPC implements [transport.Handler].
func (s *Server) ServeRPC(ctx context.Context, req *transport.Request, resp *transport.Response) {
	switch {
	case req.Prog != Program && s.Next != nil:
		s.Next.ServeRPC(ctx, req, resp)
	case req.Prog != Program:
		resp.Stat = xdr.ProgUnavail
	case req.Vers != Version:
		resp.ProgMismatch(Version, Version)
	default:
		s.init()
		s.serve(ctx, req, resp)
	}
}

func (s *Server) serve(ctx context.Context, req *transport.Request, resp *transport.Response) {
	d := xdr.NewDecoder(req.Args)
	garbage := func() bool {
		if d.End() != nil {
			resp.Stat = xdr.GarbageArgs
			return true
		}
		return false
	}
	switch req.Proc {
	case procNull:
		garbage()
	case procOpen:
		var a openArgs
		if a.parse(&d); !garbage() {
			res := s.open(ctx, req, &a)
			resp.Results = res.append(resp.Results)
		}
	case procClose:
		if k := takeKey(&d); !garbage() {
			resp.Results = xdr.AppendUint32(resp.Results, uint32(s.closeSession(k)))
		}
	case procAppend:
		var a appendArgs
		if a.parse(&d); !garbage() {
			res := s.appendRecords(ctx, &a)
			resp.Results = res.append(resp.Results)
		}
	case procStatus:
		if k := takeKey(&d); !garbage() {
			res := s.status(k)
			resp.Results = res.append(resp.Results)
		}
	default:
		resp.Stat = xdr.ProcUnavail
	}
}

// Close ends all sessions and connections, waits for Consume, and gives the memories back
// to the Store. It flushes nothing: what was acknowledged is durable. When ctx ends first,
// the error is region.ErrPinned for a log that is still being written.
func (s *Server) Close(ctx context.Context) error {
	s.init()
	s.mu.Lock()
	s.closed = true
	for l := range s.listeners {
		_ = l.Close() // nothing can be done about a listener that does not close
	}
	conns, logs := keysOf(s.conns), valuesOf(s.logs)
	s.mu.Unlock()
	s.cancel()
	for _, c := range conns {
		c.Abort(ErrServerClosed)
	}
	var errs []error
	for _, l := range logs {
		errs = append(errs, l.close(ctx))
	}
	s.wg.Wait()
	return errors.Join(errs...)
}

func keysOf[K comparable, V any](m map[K]V) []K {
	ks := make([]K, 0, len(m))
	for k := range m {
		ks = append(ks, k)
	}
	return ks
}

func valuesOf[K comparable, V any](m map[K]V) []V {
	vs := make([]V, 0, len(m))
	for _, v := range m {
		vs = append(vs, v)
	}
	return vs
}
