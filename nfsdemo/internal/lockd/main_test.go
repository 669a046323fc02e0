package lockd_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/internal/lockd"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/transport/rpcbind"
	"github.com/stag-rdma/stag/xdr"
)

// rig is a server with a file, whose lock manager can start again.
type rig struct {
	t    *testing.T
	cfg  lockd.Config
	fsys backend.FS
	file nfs3.FileHandle

	port   int // of rpcbind at all clients
	locks  *lockd.Server
	tcp    net.Listener
	udp    net.PacketConn
	srv    *transport.Server
	served chan error
}

func newRig(t *testing.T) *rig {
	t.Helper()
	return newRigOn(t, mem.New(nil))
}

func newRigOn(t *testing.T, fsys backend.FS) *rig {
	t.Helper()
	// All clients listen there. The system gives away ports above these (ip_local_port_range) for a 0, and for calls.
	r := &rig{t: t, fsys: fsys, port: 10_000 + rand.IntN(20_000)}
	for {
		l, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(r.port)))
		if err == nil {
			_ = l.Close()
			break
		}
		r.port++
	}
	if _, _, err := r.fsys.Root().Create("f", &backend.Init{}); err != nil {
		t.Fatal(err)
	}
	r.cfg = lockd.Config{File: filepath.Join(t.TempDir(), "state", "locks"), Name: "server", RPCBindPort: r.port, Retry: 20 * time.Millisecond, Grace: time.Hour}
	r.start()
	t.Cleanup(r.stop)
	return r
}

// start starts the server.
func (r *rig) start() {
	r.t.Helper()
	h, err := server.New(&server.Config{Exports: []server.Export{{Path: "/e", FS: r.fsys}}})
	if err != nil {
		r.t.Fatal(err)
	}
	cfg := r.cfg
	cfg.Files = h
	if r.locks, err = lockd.New(&cfg); err != nil {
		r.t.Fatal(err)
	}
	for _, p := range r.locks.Programs() {
		h.Add(p)
	}
	if r.tcp, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		r.t.Fatal(err)
	}
	if r.udp, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
		r.t.Fatal(err)
	}
	r.srv = &transport.Server{Handler: h}
	r.served = make(chan error, 2)
	go func() { r.served <- r.srv.ServeStream(r.tcp) }()
	go func() { r.served <- lockd.ServeUDP(r.t.Context(), r.udp, h, nil) }()
}

// held is how many locks are held, and how many are waited for.
func (r *rig) held() (held, waits int) {
	st := r.locks.Stats()
	return st.Held, st.Waits
}

func (r *rig) stop() {
	if r.locks == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = r.srv.Shutdown(ctx) // abruptly
	_ = r.udp.Close()
	<-r.served
	<-r.served
	r.locks.Close()
	r.locks = nil
}

// silent is no status: a client that says it does not answer GRANTED_MSG.
const silent lockd.Status = 99

// client is a client of the lock manager, made from the text of the protocol: with a lock manager, a status
// monitor and a rpcbind of its own, at an address of its own.
type client struct {
	r    *rig
	t    *testing.T
	ip   string
	name string
	vers uint32
	c    rpc.Caller

	granted  chan lockd.TestArgs // calls of GRANTED
	results  chan lockd.Res      // calls of *_RES
	notified chan string         // calls of NOTIFY
	say      lockd.Status        // the answer to GRANTED
	deaf     bool                // nobody listens
	udp      net.PacketConn      // where it is called
}

func (r *rig) client(ip string, deaf bool) *client {
	r.t.Helper()
	c := &client{
		r: r, t: r.t, ip: ip, name: "host" + ip, vers: lockd.Version4,
		granted: make(chan lockd.TestArgs, 9), results: make(chan lockd.Res, 9), notified: make(chan string, 9), deaf: deaf,
	}
	c.connect()
	if deaf {
		return c
	}
	own, err := net.Listen("tcp", ip+":0")
	if err != nil {
		r.t.Fatal(err)
	}
	p, err := net.ListenPacket("udp", own.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	c.udp = p
	bind, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(r.port)))
	if err != nil {
		r.t.Fatal(err)
	}
	tab := &rpcbind.Table{}
	addr := rpcbind.Universal(own.Addr().(*net.TCPAddr).AddrPort())
	for _, prog := range [][2]uint32{{lockd.NLMProgram, 4}, {lockd.NLMProgram, 3}, {lockd.NSMProgram, 1}} {
		for _, id := range []string{"tcp", "udp"} {
			tab.Entries = append(tab.Entries, rpcbind.Entry{Prog: prog[0], Vers: prog[1], Netid: id, Addr: addr})
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	srv, binder := &transport.Server{Handler: rpc.HandlerFunc(c.serve)}, &transport.Server{Handler: tab}
	ended := make(chan error, 3)
	go func() { ended <- srv.ServeStream(own) }()
	go func() { ended <- binder.ServeStream(bind) }()
	go func() { ended <- lockd.ServeUDP(ctx, p, rpc.HandlerFunc(c.serve), nil) }()
	r.t.Cleanup(func() {
		cancel()
		_ = p.Close()
		_ = srv.Shutdown(ctx)
		_ = binder.Shutdown(ctx)
		for range 3 {
			<-ended
		}
	})
	return c
}

// serve is the client's lock manager and status monitor.
func (c *client) serve(_ context.Context, req *rpc.Request, resp *rpc.Response) {
	d := xdr.NewDecoder(append([]byte(nil), req.Args...))
	if req.Prog == lockd.NSMProgram {
		var n lockd.Notify
		if xdr.Decode(&d, &n).Err() == nil && req.Proc == lockd.ProcNotify {
			c.notified <- string(n.Name)
		}
		return
	}
	switch lockd.Proc(req.Proc) {
	case lockd.ProcGranted, lockd.ProcGrantedMsg:
		var a lockd.TestArgs
		if lockd.Parse(&d, &a, req.Vers) != nil {
			resp.Stat = xdr.GarbageArgs
			return
		}
		res := lockd.Res{Cookie: a.Cookie, Status: c.say}
		if lockd.Proc(req.Proc) == lockd.ProcGranted {
			resp.Results = lockd.Append(resp.Results, &res, req.Vers)
		} else if c.say != silent {
			go c.send(lockd.ProcGrantedRes, &res)
		}
		c.granted <- a
	case lockd.ProcLockRes, lockd.ProcUnlockRes, lockd.ProcCancelRes:
		var res lockd.Res
		if lockd.Parse(&d, &res, req.Vers) == nil {
			c.results <- res
		}
	default:
		resp.Stat = xdr.ProcUnavail
	}
}

// connect connects the client to the server, from its own address.
func (c *client) connect() {
	c.t.Helper()
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(c.ip)}}).DialContext(c.t.Context(), "tcp", c.r.tcp.Addr().String())
	if err != nil {
		c.t.Fatal(err)
	}
	s, err := transport.NewStreamClient(context.Background(), conn, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	c.c = s
	c.t.Cleanup(func() { _ = s.Close() })
	if c.r.file == nil {
		c.r.file = c.lookup()
	}
}

// raw makes a call.
func (c *client) raw(prog, vers, proc uint32, args []byte) ([]byte, error) {
	var reply rpc.Reply
	cred := xdr.SysCred{MachineName: c.name, UID: 1000}
	err := c.c.Do(c.t.Context(), &rpc.Call{Prog: prog, Vers: vers, Proc: proc, Cred: cred.Auth(), Args: args, MaxResults: 4096}, &reply)
	if err == nil {
		err = reply.Header.Err()
	}
	return reply.Results, err
}

func (c *client) call(prog, vers, proc uint32, args []byte) []byte {
	c.t.Helper()
	b, err := c.raw(prog, vers, proc, args)
	if err != nil {
		c.t.Fatal(err)
	}
	return b
}

// lookup finds the file.
func (c *client) lookup() nfs3.FileHandle {
	c.t.Helper()
	d := xdr.NewDecoder(c.call(mount3.Program, mount3.Version, uint32(mount3.ProcMnt), xdr.Encode(nil, &mount3.PathArgs{Path: "/e"})))
	var m mount3.MountRes
	if err := xdr.Decode(&d, &m).Err(); err != nil || m.Status != mount3.OK {
		c.t.Fatal(err, m.Status)
	}
	args := nfs3.LookupArgs{Dir: m.Handle, Name: "f"}
	d = xdr.NewDecoder(c.call(nfs3.Program, nfs3.Version, uint32(nfs3.ProcLookup), xdr.Encode(nil, &args)))
	var l nfs3.LookupRes
	if err := xdr.Decode(&d, &l).Err(); err != nil || l.Status != nfs3.OK {
		c.t.Fatal(err, l.Status)
	}
	return append(nfs3.FileHandle(nil), l.Handle...)
}

// send makes a call of NLM.
func (c *client) send(proc lockd.Proc, args lockd.Message) ([]byte, error) {
	return c.raw(lockd.NLMProgram, c.vers, uint32(proc), lockd.Append(nil, args, c.vers))
}

// status makes a call of NLM that returns a status.
func (c *client) status(proc lockd.Proc, args lockd.Message) lockd.Status {
	c.t.Helper()
	b, err := c.send(proc, args)
	if err != nil {
		c.t.Fatal(err)
	}
	var r lockd.Res
	d := xdr.NewDecoder(b)
	if err := lockd.Parse(&d, &r, c.vers); err != nil || string(r.Cookie) != "cookie" {
		c.t.Fatalf("%v, %q", err, r.Cookie)
	}
	return r.Status
}

// part is a range of the file, for a process of the client.
func (c *client) part(pid uint32, off, n uint64) lockd.Lock {
	return lockd.Lock{Caller: []byte(c.name), File: c.r.file, Owner: []byte("owner"), ID: pid, Offset: off, Len: n}
}

func (c *client) lock(off, n uint64, block bool) lockd.Status {
	c.t.Helper()
	return c.status(lockd.ProcLock, &lockd.LockArgs{Cookie: []byte("cookie"), Block: block, Exclusive: true, Lock: c.part(1, off, n), State: 1})
}

func (c *client) reclaim(off, n uint64) lockd.Status {
	c.t.Helper()
	return c.status(lockd.ProcLock, &lockd.LockArgs{Cookie: []byte("cookie"), Exclusive: true, Lock: c.part(1, off, n), Reclaim: true})
}

func (c *client) unlock(off, n uint64) lockd.Status {
	c.t.Helper()
	return c.status(lockd.ProcUnlock, &lockd.UnlockArgs{Cookie: []byte("cookie"), Lock: c.part(1, off, n)})
}

func (c *client) cancel(off, n uint64) lockd.Status {
	c.t.Helper()
	return c.status(lockd.ProcCancel, &lockd.CancelArgs{Cookie: []byte("cookie"), Block: true, Exclusive: true, Lock: c.part(1, off, n)})
}

// started is the NOTIFY of a client that has started again.
func (c *client) started(state uint32) {
	c.t.Helper()
	c.call(lockd.NSMProgram, lockd.NSMVersion, lockd.ProcNotify, xdr.Encode(nil, &lockd.Notify{Name: []byte(c.name), State: state}))
}

// expect compares statuses.
func expect(t *testing.T, what string, got, want lockd.Status) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// eventually waits for something that happens soon.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within a minute: " + what)
		}
	}
}

func receive[T any](t *testing.T, what string, ch chan T) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(time.Minute):
		t.Fatal("not within a minute: " + what)
	}
	return v
}

var errUnavail = &xdr.RPCStatusError{}

func isRPCStatus(err error) bool { return errors.As(err, &errUnavail) }

// must returns v, unless err ends the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		noErr(t, err)
		return v
	}
}

// noErr ends the test if err is an error.
func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
