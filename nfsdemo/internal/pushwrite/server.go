package pushwrite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/internal/lease"
	"github.com/stag-rdma/stag/nfsdemo/internal/pushfile"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// file names a file: its handle.
type file = string

// Server applies push-mode writes. It is the server.Guard of the NFS server that serves the files. It is
// safe for concurrent use.
type Server struct {
	cfg    *Config
	log    *zap.Logger
	ps     *push.Server
	lock   *pmem.Memory // keeps other processes out of Config.Dir
	store  *store
	files  Files
	ctx    context.Context // done after Close
	cancel context.CancelFunc
	wg     sync.WaitGroup
	turns  chan struct{} // one slot per log that is being applied
	tidy   chan struct{} // one slot: leases are over
	leases atomic.Int64  // number of leases
	ctr    counters

	mu       sync.Mutex
	table    *lease.Table[file]
	logs     []*log // by lease.Log
	byName   map[string]*log
	sessions map[push.SessionID]*log
	grants   map[lease.ID]*grant
	waiting  map[*lease.Ticket[file]]chan struct{} // operations
	over     []lease.ID                            // ended leases that the store does not know about
	last     lease.ID
	moved    chan struct{} // closed and replaced when a log has been applied further, or cannot be
	timer    *time.Timer   // of the table's Deadline
	closed   bool
}

var _ server.Guard = (*Server)(nil)

// grant is what the server keeps about a lease.
type grant struct {
	stored
	export   string
	reserved uint64        // octets of room reserved
	durable  chan struct{} // closed when the store has the lease, or err is set
	err      error
}

// Open opens the leases and the logs in Config.Dir. Call Start next. Errors: pmem.ErrLocked if another
// server has the directory open, ErrStore, those of package push and of the file system.
func Open(cfg *Config) (*Server, error) {
	c := cfg.fill()
	s := &Server{
		cfg: c, log: c.Logger, turns: make(chan struct{}, c.Appliers), tidy: make(chan struct{}, 1),
		moved:  make(chan struct{}),
		byName: make(map[string]*log), sessions: make(map[push.SessionID]*log),
		grants: make(map[lease.ID]*grant), waiting: make(map[*lease.Ticket[file]]chan struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	var err error
	if s.lock, err = acquire(c.Dir); err != nil {
		return nil, err
	}
	if err := s.load(); err != nil {
		return nil, errors.Join(err, s.lock.Close())
	}
	s.ps = &push.Server{
		Store: c.Store, Addr: c.Addr, Limits: c.Limits, Logger: c.Logger, Forgetful: true,
		Consume: s.consume, Began: s.began, Ended: s.ended,
	}
	return s, nil
}

// load opens the leases.
func (s *Server) load() error {
	dir := s.cfg.Dir
	if _, err := os.Stat(filepath.Join(dir, storeName)); errors.Is(err, fs.ErrNotExist) {
		if names, err := s.cfg.Store.Names(); err == nil && len(names) > 0 {
			return fmt.Errorf("%s: no file %s beside %d logs: %w", dir, storeName, len(names), ErrStore)
		}
	}
	st, l, err := openStore(dir)
	if err != nil {
		return err
	}
	if l.mended > 0 {
		s.log.Warn("pushwrite: mended the file of the leases", zap.String("path", st.path), zap.Int("entries with a damaged copy", l.mended))
	}
	s.store, s.last = st, l.last
	st.snapshot = s.snapshot
	s.table = lease.New[file](lease.Config{RecallTime: s.cfg.RecallTime, Last: s.last})
	for _, e := range l.live {
		s.remember(&grant{stored: e})
	}
	return nil
}

// lockName is the file in Config.Dir whose lock keeps other processes out.
const lockName = "lock"

// acquire locks the directory against other processes.
func acquire(dir string) (*pmem.Memory, error) {
	path := filepath.Join(dir, lockName)
	m, err := pmem.Open(pmem.File, path, nil)
	if !errors.Is(err, pmem.ErrOpen) {
		return m, err
	}
	if _, serr := os.Stat(path); serr == nil { // it exists but cannot be opened
		return nil, fmt.Errorf("pushwrite: %w (can this user write there?)", err)
	}
	if err := pmem.Create(path, 4096, nil); err != nil {
		return nil, fmt.Errorf("pushwrite: %w (is it a directory that this user can write to?)", err)
	}
	return pmem.Open(pmem.File, path, nil)
}

// Start adds the two programs to files, and applies the records in the logs. When it returns nil, calls
// can be served; operations that would have to see a record that cannot be applied fail. The Logger is
// told about a log that cannot be opened, and its owner gets push.StatusLost.
func (s *Server) Start(ctx context.Context, files Files) error {
	s.files = files
	files.Add(server.Program{
		Prog: push.Program, Low: push.Version, High: push.Version, Procs: push.ProcCount,
		Serve: func(ctx context.Context, c *server.Call) error {
			s.ps.ServeRPC(ctx, c.Request, c.Resp)
			return nil
		},
		MayBlock:      func(proc uint32) bool { return s.ps.MayBlock(push.Program, push.Version, proc) },
		NonIdempotent: func(proc uint32) bool { return s.ps.NonIdempotent(push.Program, push.Version, proc) },
		Class: func(proc uint32, args []byte) rpc.Class {
			h := xdr.CallHeader{Prog: push.Program, Vers: push.Version, Proc: proc}
			return s.ps.Class(&rpc.Request{CallHeader: h, Args: args})
		},
	})
	files.Add(server.Program{
		Prog: pushfile.Program, Low: pushfile.Version, High: pushfile.Version, Procs: pushfile.ProcCount,
		Serve: s.serve, MayBlock: func(uint32) bool { return true },
	})
	if err := s.ps.Load(); err != nil {
		s.log.Error("pushwrite: logs not opened", zap.Error(err))
	}
	s.adopt()
	s.wg.Go(s.housekeep)
	return s.settled(ctx)
}

// settled waits until all logs have been applied, or cannot be.
func (s *Server) settled(ctx context.Context) error {
	s.mu.Lock()
	logs := append([]*log(nil), s.logs...)
	s.mu.Unlock()
	for _, l := range logs {
		select {
		case <-l.ready:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Serve accepts commit connections; see push.Server.Serve.
func (s *Server) Serve(l net.Listener) error { return s.ps.Serve(l) }

// Close ends all sessions and stops applying. The next Start applies the records that are left in the
// logs. Operations that wait are answered NFS3ERR_JUKEBOX.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.cancel()
	err := s.ps.Close(ctx)
	s.wg.Wait()
	return errors.Join(err, s.store.close(), s.lock.Close())
}

// serve answers a call of the program.
func (s *Server) serve(ctx context.Context, c *server.Call) error {
	d := xdr.NewDecoder(c.Args)
	switch c.Proc {
	case pushfile.ProcOpen:
		var a pushfile.OpenArgs
		a.Parse(&d)
		if err := d.End(); err != nil {
			return err
		}
		res := s.open(ctx, c, &a)
		c.Resp.Results = res.Append(c.Resp.Results)
	case pushfile.ProcReturn:
		var a pushfile.LeaseArgs
		a.Parse(&d)
		if err := d.End(); err != nil {
			return err
		}
		c.Resp.Results = xdr.AppendUint32(c.Resp.Results, uint32(s.giveBack(c.Backward, &a)))
	case pushfile.ProcStatus:
		var a pushfile.StatusArgs
		a.Parse(&d)
		if err := d.End(); err != nil {
			return err
		}
		res := s.status(c.Backward, &a)
		c.Resp.Results = res.Append(c.Resp.Results)
	}
	return nil
}

// session finds the log of a session, and remembers the connection on which to call its client. It
// returns nil if the session is over. The caller holds s.mu.
func (s *Server) session(id pushfile.Session, back *rpc.Backward) *log {
	l := s.sessions[push.SessionID(id)]
	if l != nil {
		l.back = back
	}
	return l
}

// do carries out what the table asks for. The caller holds s.mu.
func (s *Server) do(out []lease.Action[file]) {
	for _, a := range out {
		switch a.Kind {
		case lease.Recall:
			s.ctr.recalls.Add(1)
			l, id := s.logs[a.Log], a.Lease
			s.start(func() { s.recall(l, id) })
		case lease.Fence:
			l := s.logs[a.Log]
			l.fencing = true
			s.start(func() { s.fence(l) })
		case lease.Drain:
			s.logs[a.Log].hurry()
		case lease.Run:
			close(s.waiting[a.Ticket])
			delete(s.waiting, a.Ticket)
		case lease.Over:
			s.forget(a.Lease)
		}
	}
	s.schedule()
}

// start runs f in a goroutine, unless the server is closing. The caller holds s.mu.
func (s *Server) start(f func()) {
	if !s.closed {
		s.wg.Go(f)
	}
}

// schedule sets the timer for the table's deadline. The caller holds s.mu.
func (s *Server) schedule() {
	first := s.table.Deadline()
	switch {
	case s.closed:
	case first.IsZero():
		if s.timer != nil {
			s.timer.Stop()
		}
	case s.timer == nil:
		s.timer = time.AfterFunc(time.Until(first), s.tick)
	default:
		s.timer.Reset(time.Until(first))
	}
}

func (s *Server) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.do(s.table.Tick(time.Now()))
}

// remember adds a lease. The caller holds s.mu, or is alone.
func (s *Server) remember(g *grant) {
	s.grants[g.ID] = g
	s.leases.Add(1)
}

// forget removes a lease that is over. The caller holds s.mu.
func (s *Server) forget(id lease.ID) {
	if s.grants[id] == nil {
		return
	}
	delete(s.grants, id)
	s.leases.Add(-1)
	s.over = append(s.over, id)
	select {
	case s.tidy <- struct{}{}:
	default:
	}
}

// overTime is how long the store may not know that a lease is over. Usually the next grant records it: a
// separate flush would delay grants.
const overTime = time.Second

// housekeep tells the store which leases are over.
func (s *Server) housekeep() {
	var late <-chan time.Time
	for {
		select {
		case <-s.tidy:
			s.tellOver()
			if late == nil {
				late = time.After(overTime)
			}
		case <-late:
			late = nil
			_ = s.store.settle() // after an error the store grants no more
		case <-s.ctx.Done():
			return
		}
	}
}

// tellOver tells the store now.
func (s *Server) tellOver() {
	s.mu.Lock()
	over := s.over
	s.over = nil
	s.mu.Unlock()
	s.store.end(over)
}

// snapshot returns the current leases and the last ID.
func (s *Server) snapshot() (live []stored, last lease.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.grants {
		live = append(live, g.stored)
	}
	return live, s.last
}

var errClosed = fmt.Errorf("pushwrite: server closed: %w", nfs3.ErrJukebox)
