package pushwrite_test

import (
	"context"
	"errors"
	"flag"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/internal/pushfile"
	"github.com/stag-rdma/stag/nfsdemo/internal/pushwrite"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// TestMain fails the package if a test leaks a goroutine.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // those that say so wait more than they work
	rdmaptest.Main(m)
}

// faulty is Files that fail when they are told to.
type faulty struct {
	*server.Server
	mu    sync.Mutex
	write func(g *server.Grant, p []byte, off uint64) error
	sync  func(g *server.Grant) error
}

func (f *faulty) fail(write func(*server.Grant, []byte, uint64) error, sync func(*server.Grant) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.write, f.sync = write, sync
}

func (f *faulty) WriteGrant(g *server.Grant, p []byte, off uint64) (nfs3.WriteVerf, error) {
	f.mu.Lock()
	fail := f.write
	f.mu.Unlock()
	if fail != nil {
		if err := fail(g, p, off); err != nil {
			return nfs3.WriteVerf{}, err
		}
	}
	return f.Server.WriteGrant(g, p, off)
}

func (f *faulty) SyncGrant(g *server.Grant) (nfs3.WriteVerf, error) {
	f.mu.Lock()
	fail := f.sync
	f.mu.Unlock()
	if fail != nil {
		if err := fail(g); err != nil {
			return nfs3.WriteVerf{}, err
		}
	}
	return f.Server.SyncGrant(g)
}

// world is an NFS server with push-mode writes, which can be started again.
type world struct {
	t     *testing.T
	cfg   pushwrite.Config
	fs    backend.FS
	files *faulty
	pw    *pushwrite.Server
	addr  string
	stops []func()
}

// newWorld starts a server; change, if not nil, changes its configuration.
func newWorld(t *testing.T, change func(*pushwrite.Config)) *world {
	t.Helper()
	w := &world{t: t, fs: mem.New(nil), cfg: pushwrite.Config{Dir: t.TempDir(), RecallTime: time.Minute}}
	w.cfg.SetLinger(pushwrite.LingerStep)
	w.cfg.Limits.Opens, w.cfg.Limits.Capacity = 1e6, 64<<10
	if change != nil {
		change(&w.cfg)
	}
	w.start(nil)
	t.Cleanup(w.stop)
	return w
}

// start starts the server; before, if not nil, is called with its files before anything is applied.
func (w *world) start(before func(*faulty)) {
	w.t.Helper()
	commits, calls := w.listen(), w.listen()
	cfg := w.cfg
	cfg.Addr = commits.Addr().String()
	pw, err := pushwrite.Open(&cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	srv, err := server.New(&server.Config{
		Exports: []server.Export{{Path: "/export", FS: w.fs, Squash: server.SquashNone}}, Guard: pw,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.pw, w.files = pw, &faulty{Server: srv}
	if before != nil {
		before(w.files)
	}
	if err := pw.Start(w.t.Context(), w.files); err != nil {
		w.t.Fatal(err)
	}
	ts := &transport.Server{Handler: srv, Config: &transport.Config{Backward: transport.Backward{Credits: 8}}}
	w.addr = calls.Addr().String()
	var wg sync.WaitGroup
	wg.Go(func() { _ = pw.Serve(commits) })
	wg.Go(func() { _ = ts.Serve(calls) })
	w.stops = append(w.stops, func() {
		ts.Close()
		if err := pw.Close(context.Background()); err != nil {
			w.t.Error(err)
		}
		wg.Wait()
	})
}

func (w *world) listen() net.Listener {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

func (w *world) stop() {
	for _, f := range w.stops {
		f()
	}
	w.stops = nil
}

// restart stops and starts the server: acknowledged records are in the logs.
func (w *world) restart(before func(*faulty)) {
	w.t.Helper()
	w.stop()
	w.start(before)
}

// plain is a client without a log, and without a network.
type plain struct {
	t    *testing.T
	w    *world
	cred xdr.Auth
}

var testAddr = net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.7:1023"))

func sys(uid uint32) xdr.Auth {
	c := xdr.SysCred{MachineName: "client", UID: uid, GID: uid}
	return c.Auth()
}

func (w *world) plain(uid uint32) *plain { return &plain{w.t, w, sys(uid)} }

func (p *plain) root() nfs3.FileHandle {
	p.t.Helper()
	var res mount3.MountRes
	p.rpc(mount3.Program, mount3.Version, uint32(mount3.ProcMnt), &mount3.PathArgs{Path: "/export"}, &res)
	return res.Handle
}

func (p *plain) rpc(prog, vers, proc uint32, args, res nfs3.Message) {
	p.t.Helper()
	msg := xdr.AppendCall(nil, &xdr.CallHeader{XID: 1, RPCVers: 2, Prog: prog, Vers: vers, Proc: proc, Cred: p.cred})
	out, ok := rpc.ServeMessage(p.t.Context(), p.w.files.Server, testAddr, args.Append(msg), nil)
	if !ok {
		p.t.Error("no reply")
		return
	}
	d := xdr.NewDecoder(out)
	var h xdr.ReplyHeader
	if err := h.Parse(&d); err != nil || h.Err() != nil {
		p.t.Errorf("procedure %d: %v, %v", proc, err, h.Err())
		return
	}
	if err := res.Parse(&d); err != nil || d.Len() != 0 {
		p.t.Errorf("results of procedure %d: %v, %d octets left over", proc, err, d.Len())
	}
}

func nfs[R any, P interface {
	*R
	nfs3.Result
}](p *plain, proc nfs3.Proc, args nfs3.Message) *R {
	p.t.Helper()
	res := P(new(R))
	p.rpc(nfs3.Program, nfs3.Version, uint32(proc), args, res)
	return (*R)(res)
}

func (p *plain) create(name string, mode uint32) nfs3.FileHandle {
	p.t.Helper()
	r := nfs[nfs3.CreateRes](p, nfs3.ProcCreate, &nfs3.CreateArgs{
		Where: nfs3.DirOpArgs{Dir: p.root(), Name: name}, Mode: nfs3.Guarded, Attr: nfs3.SetAttr{SetMode: true, Mode: mode},
	})
	if r.Status != nfs3.OK {
		p.t.Fatal("create:", r.Status)
	}
	return r.Handle.Handle
}

func (p *plain) write(h nfs3.FileHandle, off uint64, data string) nfs3.Status {
	p.t.Helper()
	a := nfs3.WriteArgs{Handle: h, Offset: off, Count: uint32(len(data)), Stable: nfs3.FileSync, Data: []byte(data)}
	return nfs[nfs3.WriteRes](p, nfs3.ProcWrite, &a).Status
}

func (p *plain) read(h nfs3.FileHandle) (string, nfs3.Status) {
	p.t.Helper()
	r := nfs[nfs3.ReadRes](p, nfs3.ProcRead, &nfs3.ReadArgs{Handle: h, Count: 1 << 20})
	return string(r.Data), r.Status
}

// has fails the test unless the file has this content.
func (p *plain) has(h nfs3.FileHandle, want string) {
	p.t.Helper()
	if got, st := p.read(h); st != nfs3.OK || got != want {
		p.t.Errorf("the file holds %q, %v; want %q", got, st, want)
	}
}

func (p *plain) size(h nfs3.FileHandle) (uint64, nfs3.Status) {
	p.t.Helper()
	r := nfs[nfs3.GetAttrRes](p, nfs3.ProcGetAttr, &nfs3.HandleArgs{Handle: h})
	return r.Attr.Size, r.Status
}

func (p *plain) truncate(h nfs3.FileHandle, size uint64) nfs3.Status {
	p.t.Helper()
	a := nfs3.SetAttrArgs{Handle: h, Attr: nfs3.SetAttr{SetSize: true, Size: size}}
	return nfs[nfs3.SetAttrRes](p, nfs3.ProcSetAttr, &a).Status
}

func (p *plain) commit(h nfs3.FileHandle) nfs3.Status {
	p.t.Helper()
	return nfs[nfs3.CommitRes](p, nfs3.ProcCommit, &nfs3.CommitArgs{Handle: h}).Status
}

func (p *plain) remove(name string) nfs3.Status {
	p.t.Helper()
	return nfs[nfs3.WccRes](p, nfs3.ProcRemove, &nfs3.DirOpArgs{Dir: p.root(), Name: name}).Status
}

func (p *plain) rename(from, to string) nfs3.Status {
	p.t.Helper()
	d := p.root()
	a := nfs3.RenameArgs{From: nfs3.DirOpArgs{Dir: d, Name: from}, To: nfs3.DirOpArgs{Dir: d, Name: to}}
	return nfs[nfs3.RenameRes](p, nfs3.ProcRename, &a).Status
}

// pusher is a client with a log.
type pusher struct {
	t      *testing.T
	name   string
	cred   xdr.Auth
	rpc    *transport.Client
	s      *push.Session
	secret push.Secret

	mu       sync.Mutex
	answer   func(a *pushfile.RecallArgs) pushfile.Status // nil: returned
	recalled map[uint64]int
	commit   net.Conn     // of now
	asked    atomic.Int32 // how often it was asked for less or more
}

// pusher connects a client that has a log of this name.
func (w *world) pusher(name string, uid uint32) *pusher {
	w.t.Helper()
	p := &pusher{t: w.t, name: name, secret: push.NewSecret(), cred: sys(uid), recalled: make(map[uint64]int)}
	p.dial(w)
	return p
}

// dial opens a session, as a new instance.
func (p *pusher) dial(w *world) {
	p.t.Helper()
	var err error
	p.rpc, err = transport.Dial(p.t.Context(), "tcp", w.addr, &transport.Config{Backward: transport.Backward{Credits: 8, Handler: p}})
	if err != nil {
		p.t.Fatal(err)
	}
	p.s, err = push.Dial(p.t.Context(), p.rpc, p.name, &push.Config{
		Cred: p.cred, Secret: p.secret, MinDelay: time.Millisecond,
		Dial: func(ctx context.Context, addr string) (net.Conn, error) {
			var d net.Dialer
			c, err := d.DialContext(ctx, "tcp", addr)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.commit = c
			return c, err
		},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	rpc, s := p.rpc, p.s
	w.stops = append(w.stops, func() { _ = s.Close(context.Background()); rpc.Close() })
}

// ServeRPC takes what the server asks for.
func (p *pusher) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	if req.Prog != pushfile.CallbackProgram {
		resp.Stat = xdr.ProgUnavail
		p.asked.Add(1)
		return
	}
	d := xdr.NewDecoder(req.Args)
	var a pushfile.RecallArgs
	if a.Parse(&d); d.End() != nil {
		resp.Stat = xdr.GarbageArgs
		return
	}
	p.mu.Lock()
	p.recalled[a.Lease]++
	answer := p.answer
	p.mu.Unlock()
	st := pushfile.StatusOK
	if answer != nil {
		st = answer(&a)
	}
	resp.Results = xdr.AppendUint32(resp.Results, uint32(st))
}

// MayBlock: a test may.
func (p *pusher) MayBlock(_, _, _ uint32) bool { return true }

// cut ends the commit connection.
func (p *pusher) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.commit.(*net.TCPConn).CloseWrite()
}

// answers sets the answer to recalls.
func (p *pusher) answers(f func(a *pushfile.RecallArgs) pushfile.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = f
}

func (p *pusher) call(proc uint32, args []byte, parse func(*xdr.Decoder)) {
	p.t.Helper()
	c := rpc.Call{Prog: pushfile.Program, Vers: pushfile.Version, Proc: proc, Cred: p.cred, Args: args, MaxResults: 512}
	var reply rpc.Reply
	defer reply.Release()
	if err := errors.Join(p.rpc.Do(p.t.Context(), &c, &reply), reply.Header.Err()); err != nil {
		p.t.Error("procedure", proc, err)
		return
	}
	d := xdr.NewDecoder(reply.Results)
	if parse(&d); d.End() != nil {
		p.t.Error("procedure", proc, d.End())
	}
}

func (p *pusher) open(h nfs3.FileHandle, octets uint64) pushfile.OpenRes {
	p.t.Helper()
	a := pushfile.OpenArgs{Session: pushfile.Session(p.s.ID()), File: h, Octets: octets}
	var res pushfile.OpenRes
	p.call(pushfile.ProcOpen, a.Append(nil), res.Parse)
	return res
}

// lease is open, which must succeed.
func (p *pusher) lease(h nfs3.FileHandle) uint64 {
	p.t.Helper()
	res := p.open(h, 0)
	if res.Status != pushfile.StatusOK {
		p.t.Fatal("open:", res.Status)
	}
	return res.Lease
}

func (p *pusher) giveBack(lease uint64) (st pushfile.Status) {
	p.t.Helper()
	a := pushfile.LeaseArgs{Session: pushfile.Session(p.s.ID()), Lease: lease}
	p.call(pushfile.ProcReturn, a.Append(nil), func(d *xdr.Decoder) { st = pushfile.Status(d.Uint32()) })
	return st
}

func (p *pusher) status() pushfile.StatusRes {
	p.t.Helper()
	a := pushfile.StatusArgs{Session: pushfile.Session(p.s.ID())}
	var res pushfile.StatusRes
	p.call(pushfile.ProcStatus, a.Append(nil), res.Parse)
	return res
}

// write appends a record; nil: it is acknowledged.
func (p *pusher) write(lease, off uint64, data string) error {
	return p.writeFor(p.t.Context(), lease, off, []byte(data))
}

func (p *pusher) writeFor(ctx context.Context, lease, off uint64, data []byte) error {
	r := pushfile.Record{Lease: lease, Offset: off, Data: data}
	_, err := p.s.Append(ctx, r.Append(nil))
	return err
}

// wrote is write, which must succeed.
func (p *pusher) wrote(lease, off uint64, data string) {
	p.t.Helper()
	if err := p.write(lease, off, data); err != nil {
		p.t.Error("append:", err)
	}
}

// until waits until ok holds.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: ", what)
		}
	}
}
