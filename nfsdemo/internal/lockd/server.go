// Package lockd is a lock manager: it serves NLM, and as much of NSM as that
// needs, for the files of a [server.Server].
//
// A client is the pair of an address and the name that the client gives itself. What it locks goes to the
// file system if that is a [backend.Locker], else to the memory of this process. A lock that has to wait is
// a block: it ends when the client is told by GRANTED, when the client asks again and gets the lock, when it
// cancels, or when it goes.
//
// Nobody can tell a client that is slow from one that is gone, so locks end in four ways only: UNLOCK,
// FREE_ALL, the NOTIFY by which a client says that it has started again, and the end of this process. For
// the last, Server keeps the names of its clients in a file. When it starts again, it tells them, and for
// a while it gives locks only to those who held them before.
package lockd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/internal/shared"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/transport/rpcbind"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// DefaultGrace is how long only reclaims are granted after a start, if some client has held locks before.
// Clients learn within a second or two that the server is back; 45 s is for those that
// have to be called twice.
const DefaultGrace = 45 * time.Second

// Bounds on what clients can make a Server keep.
const (
	maxClients  = 4096
	maxNames    = 16  // of clients at one address
	maxNameLen  = 255 // octets
	maxOutgoing = 64  // calls to clients, at a time
	maxLane     = 8   // of these to one address
	maxUnheard  = 48  // of these to addresses that have not answered the last one, or had none
	maxUnknown  = 2   // of these to one address
)

// Files are the files that can be locked: a [server.Server].
type Files interface {
	LockFile(ctx context.Context, c *server.Call, h nfs3.FileHandle, open bool) (backend.FS, []byte, error)
}

// Config says what a Server does. New copies it.
type Config struct {
	Files Files
	// Shared keep the locks of file systems that other servers serve too. What a client holds there outlives this
	// server and may have been given by another one. It needs no grace period: until its client reclaims it,
	// nobody else gets it.
	Shared []backend.Locker
	// File keeps the state and the names of the clients, so that they can be told when the server
	// is back. If empty, nothing is kept, which is right for files that end with the process.
	File string
	// Name is the name of this machine for its clients; if empty, the system knows it.
	Name string
	// Grace, if zero, is DefaultGrace.
	Grace time.Duration
	// Limits are those of locks that this process keeps. Its waits are those of clients that wait, and of those that
	// were not yet told that they have their lock.
	Limits Limits
	// RPCBindPort is where clients' rpcbind is asked; if zero, 111.
	RPCBindPort int
	// Retry is the wait before a client that did not answer is called again, then twice as long each time.
	// If zero, 2 s.
	Retry time.Duration
	// Logger gets lines about clients. If nil, nothing is logged.
	Logger *zap.Logger
}

func (c *Config) fill() Config {
	out := *c
	if out.Name == "" {
		out.Name, _ = os.Hostname() // clients also know us by our address
	}
	if out.Grace == 0 {
		out.Grace = DefaultGrace
	}
	if out.RPCBindPort == 0 {
		out.RPCBindPort = rpcbind.Port
	}
	if out.Retry == 0 {
		out.Retry = 2 * time.Second
	}
	if out.Logger == nil {
		out.Logger = zap.NewNop()
	}
	out.Limits = out.Limits.Fill()
	out.Limits.ShareOf = shareOf
	return out
}

// rpcbindAt is the address of a client's rpcbind.
func (c *Config) rpcbindAt(host string) string {
	return net.JoinHostPort(host, strconv.Itoa(c.RPCBindPort))
}

// errFull: a client is one too many.
var errFull = errors.New("lockd: too many clients")

// settleTime limits how long a file system may take to give back a lock.
const settleTime = 10 * time.Second

// Server is the lock manager. It is safe for concurrent use.
type Server struct {
	cfg   Config
	local *Locker
	ctx   context.Context // until Close
	stop  context.CancelFunc
	wg    sync.WaitGroup
	out   chan struct{} // holds an element for each call to a client
	slow  chan struct{} // for each to an address that has not answered
	lanes map[string]*lane
	stats counters

	graceEnd time.Time
	before   map[host]bool // who may reclaim until then

	mu      shared.Mutex
	clients map[host]*client
	shares  map[string]*sharing
	blocks  int // of all clients
	kept    kept
	changes uint64 // of kept.hosts
	cookie  uint64
	answers map[answerKey]chan Status // of GRANTED_MSG

	saving shared.Mutex  // before mu: the disk is slow, and those who have been saved do not wait for it
	saved  atomic.Uint64 // changes that are on the disk
}

// sharing is what is known of those who have one share (see peeraddr), if they have clients or blocks.
type sharing struct {
	clients int
	blocks  int
	answers bool // it has answered our last call
}

// counters are those of Stats.
type counters struct{ noLocks, leftOut, unanswered atomic.Uint64 }

// Stats says what a Server keeps and has refused.
type Stats struct {
	Held, Waits, Clients int    // now
	Refused              uint64 // locks and waits, by a limit
	LeftOut              uint64 // calls to clients that were not made, since too many were
	Unanswered           uint64 // calls to clients that were not answered
}

// client is a client that has locks, or has had some.
type client struct {
	host
	key string // its name for a Locker

	mu       shared.Mutex // held while its locks change, but not while one of them waits
	blocks   map[blockKey]*block
	notified uint32 // the state in its last NOTIFY
	kept     uint64 // the change with which it is on the disk, or will be; 0: none. Under the server's mutex
	calls    int    // of it that have entered and not left: it is not forgotten meanwhile. Under the server's mutex
}

// key is the name of a client for a Locker.
func (h host) key() string { return h.addr + " " + h.name }

// shareOf returns whose share of the locks a client uses: all names at the addresses of a host have one.
func shareOf(client string) string {
	addr, _, _ := strings.Cut(client, " ")
	return peeraddr.ShareOf(addr)
}

// share is whose share of everything else it uses.
func (h host) share() string { return peeraddr.ShareOf(h.addr) }

// New starts a lock manager: it begins to tell those who held locks before.
func New(cfg *Config) (*Server, error) {
	s := &Server{
		cfg: cfg.fill(), out: make(chan struct{}, maxOutgoing), slow: make(chan struct{}, maxUnheard), lanes: make(map[string]*lane),
		clients: make(map[host]*client), shares: make(map[string]*sharing), answers: make(map[answerKey]chan Status),
	}
	s.local = NewLocker(s.cfg.Limits)
	if s.cfg.File != "" {
		var err error
		if s.kept, err = readKept(s.cfg.File); err != nil {
			return nil, err
		}
		s.kept.state = (s.kept.state | 1) + 2 // odd: up
		if err := s.kept.write(s.cfg.File); err != nil {
			return nil, err
		}
	} else {
		s.kept = kept{state: uint32(time.Now().Unix()) | 1, hosts: make(map[host]bool)}
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.before = make(map[host]bool)
	for h := range s.kept.hosts {
		s.before[h] = true
	}
	if len(s.before) > 0 {
		s.graceEnd = time.Now().Add(s.cfg.Grace)
		s.cfg.Logger.Info("lockd: only reclaims are granted", zap.Duration("for", s.cfg.Grace), zap.Int("clients", len(s.before)))
	}
	for h := range s.before {
		s.wg.Go(func() { s.notify(h) })
	}
	return s, nil
}

// Close ends everything that waits, and forgets all locks.
func (s *Server) Close() {
	s.stop()
	s.wg.Wait()
}

// Grace returns how much longer only reclaims are granted.
func (s *Server) Grace() time.Duration { return max(0, time.Until(s.graceEnd)) }

// Stats returns the counters.
func (s *Server) Stats() Stats {
	held, waits := s.local.Len()
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{
		Held: held, Waits: waits, Clients: len(s.clients),
		Refused: s.stats.noLocks.Load(), LeftOut: s.stats.leftOut.Load(), Unanswered: s.stats.unanswered.Load(),
	}
}

// Programs are what a [server.Mux] has to serve.
func (s *Server) Programs() []server.Program {
	blocks := func(uint32, []byte) rpc.Traits { return rpc.Traits{Blocks: true} }
	return []server.Program{
		{Prog: NLMProgram, Low: Version1, High: Version4, Procs: uint32(NLMProcCount), Serve: s.serveNLM, Describe: blocks},
		{Prog: NSMProgram, Low: NSMVersion, High: NSMVersion, Procs: NSMProcCount, Serve: s.serveNSM, Describe: blocks},
	}
}

// hostOf is the client that an address and a name stand for.
func hostOf(a net.Addr, name []byte) host { return host{peeraddr.Host(a), string(name)} }

// client returns the client, or nil if it is not known.
func (s *Server) client(h host) *client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clients[h]
}

// enter returns the client, new if necessary, and with keep sees to it that it will be told when this server
// starts again: before it gets its first lock. Call leave afterwards.
func (s *Server) enter(h host, keep bool) (*client, error) {
	c, change, err := s.known(h, keep)
	if err == nil && keep {
		if err = s.save(change); err != nil {
			s.leave(c)
		}
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// leave ends a call that has entered.
func (s *Server) leave(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.calls--
}

// known is enter without the disk, and returns the change that has to be there.
func (s *Server) known(h host, keep bool) (c *client, change uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c = s.clients[h]
	if c == nil {
		if len(h.name) > maxNameLen {
			return nil, 0, errFull
		}
		if s.full(h.share()) {
			s.forgetIdle(h.share())
		}
		if s.full(h.share()) {
			return nil, 0, errFull
		}
		c = &client{host: h, key: h.key(), blocks: make(map[blockKey]*block)}
		s.clients[h] = c
		s.at(h.share()).clients++
	}
	if keep && c.kept == 0 {
		s.kept.hosts[h] = true
		s.changes++
		c.kept = s.changes
	}
	c.calls++
	return c, c.kept, nil
}

// at returns what is known of a share.
func (s *Server) at(share string) *sharing {
	a := s.shares[share]
	if a == nil {
		a = &sharing{}
		s.shares[share] = a
	}
	return a
}

// left forgets a share that has nothing any more.
func (s *Server) left(share string) {
	if a := s.shares[share]; a != nil && a.clients == 0 && a.blocks == 0 {
		delete(s.shares, share)
	}
}

// full reports whether a share gets no more clients: of the second half each has one.
func (s *Server) full(share string) bool {
	n := 0
	if a := s.shares[share]; a != nil {
		n = a.clients
	}
	return len(s.clients) >= maxClients || n >= maxNames || len(s.clients) >= maxClients/2 && n >= 1
}

// takeBlock counts one block more, unless there are too many.
func (s *Server) takeBlock(share string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.at(share)
	if l := &s.cfg.Limits; Full(s.blocks+1, l.Waits, a.blocks+1, l.ClientWaits) {
		s.left(share)
		return false
	}
	s.blocks++
	a.blocks++
	return true
}

// dropBlock counts one block less.
func (s *Server) dropBlock(share string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocks--
	s.at(share).blocks--
	s.left(share)
}

// heard notes whether one of a share has answered a call.
func (s *Server) heard(share string, err error) {
	if err != nil {
		s.stats.unanswered.Add(1)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.shares[share]; a != nil {
		a.answers = err == nil
	}
}

// save returns when a change is on the disk. One write is for all that have changed something by then.
func (s *Server) save(change uint64) error {
	if s.cfg.File == "" || s.saved.Load() >= change {
		return nil
	}
	s.saving.Lock()
	defer s.saving.Unlock()
	if s.saved.Load() >= change {
		return nil
	}
	var k kept
	var changes uint64
	s.mu.With(func() { k, changes = kept{s.kept.state, maps.Clone(s.kept.hosts)}, s.changes })
	if err := k.write(s.cfg.File); err != nil {
		s.cfg.Logger.Warn("lockd: cannot keep the names of clients", zap.Error(err))
		return err
	}
	s.saved.Store(changes)
	return nil
}

// forgetIdle forgets clients that hold nothing in this process: those of a share, and if there are too many, all.
func (s *Server) forgetIdle(share string) {
	for h, c := range s.clients {
		if h.share() != share && len(s.clients) < maxClients/2 || c.calls > 0 || !s.idle(c) {
			continue
		}
		delete(s.clients, h)
		delete(s.kept.hosts, h)
		s.shares[h.share()].clients--
		s.left(h.share())
	}
}

// idle reports whether a client of which no call runs holds nothing. The caller holds s.mu, so that none begins.
func (s *Server) idle(c *client) bool {
	if !c.mu.TryLock() {
		return false // who is busy is not idle
	}
	defer c.mu.Unlock()
	return len(c.blocks) == 0 && !s.local.Holds(c.key)
}

// settling is for calls to a file system that must not end early.
func (s *Server) settling() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(s.ctx), settleTime)
}

// release takes everything from a client.
func (s *Server) release(c *client) {
	var ended []*block
	c.mu.With(func() {
		for _, b := range c.blocks {
			b.end()
			ended = append(ended, b)
		}
		clear(c.blocks)
	})
	for _, b := range ended {
		<-b.done // SetLock returns soon
	}
	ctx, cancel := s.settling()
	defer cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = s.local.ReleaseLocks(ctx, c.key) // never fails
	for _, l := range s.cfg.Shared {
		if err := l.ReleaseLocks(ctx, c.key); err != nil {
			s.cfg.Logger.Warn("lockd: locks of a client that is gone are still held", zap.String("client", c.name), zap.Error(err))
		}
	}
}

// Held is a lock that a client holds or, if it Waits, waits for.
type Held struct {
	Address, Name string // of the client; the name is what it calls itself
	File          nfs3.FileHandle
	Lock          backend.Lock
	Waits         bool
}

// Locks returns at most so many of the locks that this process keeps, in no order, and how many there are; file systems of
// Config.Shared know theirs.
func (s *Server) Locks(most int) (list []Held, all int) {
	add := func(f string, l *backend.Lock, waits bool) bool {
		if len(list) == most {
			return false
		}
		addr, name, _ := strings.Cut(l.Owner.Client, " ") // see key
		list = append(list, Held{addr, name, nfs3.FileHandle(f), *l, waits})
		return true
	}
	s.local.mu.Lock()
	defer s.local.mu.Unlock()
	t := s.local.table
	for _, f := range t.files {
		for i := range f.locks {
			if !add(f.name, &f.locks[i], false) {
				return list, t.locks + t.waits
			}
		}
		for _, w := range f.waits {
			if !add(f.name, &w.Lock, true) {
				return list, t.locks + t.waits
			}
		}
	}
	return list, t.locks + t.waits
}

// Free takes all locks from the clients of an address or of a name, as if they had started again, and ends their waits. It
// returns how many clients those were. They are not told, and may lock again.
func (s *Server) Free(who string) int {
	var list []*client
	s.mu.With(func() {
		for h, c := range s.clients {
			if h.addr == who || sameName([]byte(h.name), []byte(who)) {
				list = append(list, c)
			}
		}
	})
	for _, c := range list {
		s.cfg.Logger.Info("lockd: the locks of a client were taken", zap.String("client", c.name), zap.String("address", c.addr))
		s.release(c)
	}
	return len(list)
}

// Readers of a UDP socket: as many calls run at a time, since locks wait elsewhere.
const udpReaders = 4

// maxDatagram is more than the longest call has: a lock with three strings of 1024 octets.
const maxDatagram = 8192

// datagram is a Handler that names the transport, which ServeMessage does not know, and answers with no more than a datagram
// may have.
type datagram struct{ next rpc.Handler }

func (h datagram) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	req.Network = "udp"
	if h.next.ServeRPC(ctx, req, resp); resp.ReplySize() > maxDatagram {
		resp.Fail(xdr.SystemErr) // a list in parts would be a wrong one
	}
}

// Serves reports whether a program is one of a Server.
func Serves(prog uint32) bool { return prog == NLMProgram || prog == NSMProgram }

// ServeUDP answers calls that come to p, which h serves, until p is closed. Those that allow, if not nil, refuses get no answer.
func ServeUDP(ctx context.Context, p net.PacketConn, h rpc.Handler, allow func(from net.Addr, prog uint32) bool) error {
	var wg sync.WaitGroup
	errs := make(chan error, udpReaders)
	for range udpReaders {
		wg.Go(func() { errs <- serveUDP(ctx, p, datagram{h}, allow) })
	}
	wg.Wait()
	return <-errs
}

func serveUDP(ctx context.Context, p net.PacketConn, h rpc.Handler, allow func(net.Addr, uint32) bool) error {
	in, out := make([]byte, maxDatagram), []byte(nil)
	for {
		n, from, err := p.ReadFrom(in)
		if err != nil {
			return err
		}
		const prog = 12 // behind XID, direction and version (RFC 5531 Section 9)
		if n < prog+4 || allow != nil && !allow(from, binary.BigEndian.Uint32(in[prog:])) {
			continue
		}
		var ok bool
		if out, ok = rpc.ServeMessage(ctx, h, from, in[:n], out[:0]); ok {
			_, _ = p.WriteTo(out, from) // the caller asks again
		}
	}
}

// host is a client that was, or is, to be told when this server starts again.
type host struct{ addr, name string }

// kept is what is on the disk.
type kept struct {
	state uint32 // odd
	hosts map[host]bool
}

// The file:
//
//	state 7
//	host "192.0.2.7" "name of the client"
//	...
func readKept(name string) (k kept, err error) {
	k.hosts = make(map[host]bool)
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err != nil {
		return k, err
	}
	bad := func(line []byte) error {
		return fmt.Errorf("%s: %q is not a line of this file: remove the file, and clients that held locks will not learn that they are lost", name, line)
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for first := true; lines.Scan(); first = false {
		if first {
			if _, err := fmt.Sscanf(lines.Text(), "state %d", &k.state); err != nil {
				return k, bad(lines.Bytes())
			}
			continue
		}
		var h host
		if _, err := fmt.Sscanf(lines.Text(), "host %q %q", &h.addr, &h.name); err != nil {
			return k, bad(lines.Bytes())
		}
		k.hosts[h] = true
	}
	return k, lines.Err()
}

// write replaces the file; it is durable when write returns.
func (k *kept) write(name string) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "state %d\n", k.state)
	for h := range k.hosts {
		fmt.Fprintf(&b, "host %q %q\n", h.addr, h.name)
	}
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".locks")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // it was renamed
	_, err = tmp.Write(b.Bytes())
	if err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), name)
	}
	if err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
