package push

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stag-rdma/stag/internal/accept"
	"github.com/stag-rdma/stag/internal/shared"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/internal/rendezvous"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// ErrServerClosed is returned by Serve and Load after Close.
var ErrServerClosed = errors.New("push: server closed")

// maxConns limits the commit connections. One address may have an eighth as many that have not shown a token yet.
const maxConns = 4096

// Server has the logs that clients append to, and the RPC program that opens them. It is a
// [rpc.Handler]: pass it to a transport.Server. Set the fields, call Load, then serve. The
// fields must not change afterwards. A setting out of range is an error of Load and Serve that wraps
// rpc.ErrConfig; calls of the program are then answered with SYSTEM_ERR.
type Server struct {
	// Store keeps the logs. It must be set.
	Store Store
	// Addr is the address for commit connections, host:port, that clients are told. Without host,
	// clients use the host of the RPC server. The application passes its listener to Serve. "" means that there is no such address, and clients get the rung Append.
	Addr string
	// TLS is that of the commit connections, below MPA; the zero value: off.
	TLS transport.TLS
	// Limits restricts what clients can take from the server.
	Limits Limits
	// Next serves the calls of all other programs. If nil, they are answered with
	// PROG_UNAVAIL.
	Next rpc.Handler
	// Logger gets a line per session and per failure. If nil, nothing is logged.
	Logger *zap.Logger

	once   sync.Once
	lim    Limits
	cfgErr error

	side   rendezvous.Acceptor[*session] // commit connections
	logger *zap.Logger
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	calls  chan struct{} // a slot per running OPEN
	reads  chan struct{} // a slot per running READ
	// Running OPENs and READs by host.
	opening, reading accept.Strangers
	ctr              counters

	mu       shared.Mutex
	logs     map[string]*log
	octets   uint64 // of all rings, and of those that are being made
	making   map[string]*making
	aside    int // files of the Store without an owner
	sessions map[key]*session
	closed   bool
}

var _ rpc.Handler = (*Server)(nil)

func (s *Server) init() error {
	s.once.Do(func() {
		if s.lim, s.cfgErr = s.Limits.fill(); s.cfgErr != nil { // nothing is served; Close needs the rest
			s.cfgErr = fmt.Errorf("push: %w", s.cfgErr)
			s.lim, _ = Limits{}.fill()
		}
		if s.logger = s.Logger; s.logger == nil {
			s.logger = zap.NewNop()
		}
		s.logger = accept.Sampled(s.logger)
		s.ctx, s.cancel = context.WithCancel(context.Background())
		s.calls = make(chan struct{}, mostOpens)
		s.reads = make(chan struct{}, mostReads)
		s.logs, s.making = make(map[string]*log), make(map[string]*making)
		s.sessions = make(map[key]*session)
		s.side.MaxConns, s.side.TLS, s.side.Closed, s.side.Logger = maxConns, s.TLS, ErrServerClosed, s.logger
	})
	return s.cfgErr
}

// Load opens all logs of the Store. If a log cannot be opened, it stays in the Store, its owner
// gets StatusLost, and the other logs are served. Load returns all errors joined, those of the
// Store first.
func (s *Server) Load() error {
	if err := s.init(); err != nil {
		return err
	}
	var errs []error
	aside, err := s.Store.Tidy()
	if err != nil { // the logs that have owners can be served nevertheless
		errs = append(errs, fmt.Errorf("push: store: %w", err))
	}
	names, err := s.Store.Names()
	if err != nil {
		return fmt.Errorf("push: store: %w", err)
	}
	s.mu.With(func() { s.aside = aside })
	if aside > 0 {
		s.logger.Warn("push: files without an owner lie aside in the store (look at them with nfsdemo log dump, and remove them)", zap.Int("files", aside))
	}
	for _, name := range names {
		if _, err := s.load(name); err != nil {
			errs = append(errs, &Error{Op: "load", Log: name, Err: err})
		}
	}
	return errors.Join(errs...)
}

// Describe implements the method of [rpc.Handler], and asks Next about the other programs. A second OPEN would end the
// session of the first. An APPEND may run twice, because its records have numbers, and so may a RELEASE.
func (s *Server) Describe(req *rpc.Request) (t rpc.Traits) {
	if req.Prog != Program {
		return rpc.Describe(s.Next, req)
	}
	switch req.Proc {
	case procOpen:
		t.Blocks, t.Once = true, true
	case procRead:
		t.Blocks = true
		if n := len(req.Args); n >= 4 && [4]byte(req.Args[n-4:]) != [4]byte{} {
			t.Class = 1 // it may wait for records, and takes as long as they take
		}
	case procClose, procAppend, procRelease:
		t.Blocks = true
	}
	return t
}

// Ready asks Next about the other programs.
func (s *Server) Ready(ctx context.Context, req *rpc.Request) bool {
	return req.Prog != Program && rpc.Ready(ctx, s.Next, req)
}

// ServeRPC implements [rpc.Handler].
func (s *Server) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	switch {
	case req.Prog != Program && s.Next != nil:
		s.Next.ServeRPC(ctx, req, resp)
	case req.Prog != Program:
		resp.Stat = xdr.ProgUnavail
	case req.Vers != Version:
		resp.ProgMismatch(Version, Version)
	case s.init() != nil:
		resp.Stat = xdr.SystemErr
	default:
		s.serve(ctx, req, resp)
	}
}

func (s *Server) serve(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
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
	case procRead:
		var a readArgs
		if a.parse(&d); !garbage() {
			res := s.read(ctx, req, &a)
			resp.Results = res.append(resp.Results)
		}
	case procRelease:
		var a releaseArgs
		if a.parse(&d); !garbage() {
			resp.Results = xdr.AppendUint32(resp.Results, uint32(s.release(ctx, &a)))
		}
	default:
		resp.Stat = xdr.ProcUnavail
	}
}

// RecheckTLS asks TLS.Config.VerifyConnection about all commit connections within TLS, and ends those that it refuses: call it
// when whom to trust has changed, as that of transport.Server.
func (s *Server) RecheckTLS() { s.side.RecheckTLS() }

// Close ends all sessions and connections, and returns the memory of the logs to the Store. It flushes nothing: acknowledged records are already durable. If ctx ends first,
// the error is region.ErrPinned for a log that is still being written.
func (s *Server) Close(ctx context.Context) error {
	_ = s.init() // what it makes is closed below
	var logs []*log
	s.mu.With(func() {
		s.closed = true
		logs = slices.Collect(maps.Values(s.logs))
	})
	s.cancel()
	s.side.Close()
	var errs []error
	for _, l := range logs {
		errs = append(errs, l.close(ctx))
	}
	return errors.Join(errs...)
}

// log is a log of a Server.
type log struct {
	s     *Server
	name  string
	owner Owner
	host  string // for which it was made, "" if unknown
	size  uint64 // of the ring
	mem   region.Memory
	log   *commitlog.Log // nil if it could not be opened; err says why
	err   error
	ctx   context.Context // ends when the memory fails, and with the server
	fail  context.CancelCauseFunc
	turn  chan struct{} // one slot: held by the call that opens a session, or releases records
	reads chan struct{} // a slot per running READ

	// Guarded by Server.mu.
	session *session // nil: none
	claim   key      // who may resume: the durable instance of the log, or who is taking it over

	seen uint64 // number of the last record that TryNext has returned; belongs to whoever has the turn
}

// load opens a log of the store.
func (s *Server) load(name string) (*log, error) {
	mem, from, err := s.Store.Open(name)
	l := &log{s: s, name: name, owner: from.Owner, host: from.Host, turn: make(chan struct{}, 1), reads: make(chan struct{}, mostReads/readsShare)}
	l.ctx, l.fail = context.WithCancelCause(s.ctx)
	if err == nil {
		l.mem = mem
		l.log, err = commitlog.Open(mem)
	}
	if err != nil {
		l.err = err
		s.logger.Error("push: log not opened", zap.String("log", name), zap.Error(err))
	} else {
		l.size = l.log.Info().Capacity
		l.claim = l.log.Instance()
		l.seen = l.log.Info().HeadSeq - 1
		l.log.OnError(l.failed)
		l.doubt()
	}
	if !s.add(l) {
		return nil, errors.Join(ErrServerClosed, l.close(context.Background()))
	}
	return l, err
}

// doubt logs what is damaged. The header has the owner's digest too, with a checksum: it counts.
func (l *log) doubt() {
	info := l.log.Info()
	if info.Poison != nil {
		l.s.logger.Error("push: log damaged (see nfsdemo log verify)", zap.String("log", l.name), zap.Error(info.Poison))
	}
	for _, e := range [...]*commitlog.FormatError{info.BadHeader, info.BadHead} {
		if e != nil {
			l.s.logger.Error("push: log damaged, but its other copy of that is whole (look at the medium)", zap.String("log", l.name), zap.Error(e))
		}
	}
	if owner := Owner(l.log.Owner()); owner != l.owner {
		l.s.logger.Error("push: owner of a log damaged, but its header has the owner too (look at the medium)", zap.String("log", l.name))
		l.owner = owner
	}
}

// add adds a log. It returns false if the server is closed.
func (s *Server) add(l *log) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.unreserve(l.name)
	s.logs[l.name] = l
	s.octets += l.size
	return true
}

// failed is called with the first error of the memory.
func (l *log) failed(err error) {
	l.fail(err)
	l.s.ctr.lost.Add(1)
	l.s.logger.Error("push: memory of a log failed", zap.String("log", l.name), zap.Error(err))
}

// lost reports whether nothing can ever be appended again.
func (l *log) lost() bool {
	return l.log == nil || l.ctx.Err() != nil && !errors.Is(context.Cause(l.ctx), context.Canceled)
}

// close closes the log and its memory.
func (l *log) close(ctx context.Context) error {
	var err error
	if l.log != nil {
		err = l.log.Close(ctx)
	}
	if l.mem != nil && err == nil {
		err = l.mem.Close()
	}
	return err
}

// Stats has the counters of a server.
type Stats struct {
	Logs     int    // number of logs
	Sessions int    // open sessions
	Conns    int    // commit connections
	Octets   uint64 // total size of the rings
	Aside    int    // files in the Store without an owner that may hold records
	Made     uint64 // logs that did not exist before
	Opens    uint64 // sessions begun
	Refused  uint64 // OPENs that got no session
	Full     uint64 // of these, because there was no room for a log, in total or for one host
	Native   uint64 // sessions that use a commit connection
	Rejected uint64 // commit connections refused: without a valid token, or too many
	Appends  uint64 // records by APPEND
	Lost     uint64 // logs whose memory has failed
}

type counters struct {
	made, opens, refused, full, native, appends, lost atomic.Uint64
}

// Stats returns the counters. They are not read at the same instant.
func (s *Server) Stats() Stats {
	s.init()
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{
		Logs: len(s.logs), Sessions: len(s.sessions), Conns: s.side.Conns(), Octets: s.octets,
		Aside: s.aside, Made: s.ctr.made.Load(), Opens: s.ctr.opens.Load(), Refused: s.ctr.refused.Load(), Full: s.ctr.full.Load(),
		Native: s.ctr.native.Load(), Rejected: s.side.Rejected.Load(), Appends: s.ctr.appends.Load(),
		Lost: s.ctr.lost.Load(),
	}
}
