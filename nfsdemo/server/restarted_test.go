package server_test

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// host is a server on every address of this host.
type host struct {
	*testing.T
	s    interface{ Stats() rpc.Stats } // who knows duplicates
	addr string
}

func newHost(t *testing.T) *host {
	t.Helper()
	return newHostOf(t, nil, func(s *server.Server) rpc.Handler { return s })
}

func newHostOf(t *testing.T, cfg *transport.Config, wrap func(*server.Server) rpc.Handler) *host {
	t.Helper()
	h, err := server.New(&server.Config{Exports: []server.Export{{Path: "/x", FS: mem.New(nil), Squash: server.SquashNone}}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &transport.Server{Handler: wrap(h), Config: cfg}
	served := make(chan error, 1)
	go func() { served <- s.ServeShared(l) }()
	t.Cleanup(func() { _ = s.Close(); <-served })
	return &host{t, s, l.Addr().String()}
}

// unaware is a server that was written for TCP: it knows no duplicates.
type unaware struct{ h rpc.Handler }

func (u unaware) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	u.h.ServeRPC(ctx, req, resp)
}

// newListeningHost is a server behind a Listener, which has the duplicate request cache.
func newListeningHost(t *testing.T) *host {
	t.Helper()
	h, err := server.New(&server.Config{Exports: []server.Export{{Path: "/x", FS: mem.New(nil), Squash: server.SquashNone}}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := transport.Listen("tcp", "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &transport.Server{Handler: unaware{h}}
	served := make(chan error, 1)
	go func() { served <- s.ServeStream(l) }()
	t.Cleanup(func() { _ = s.Close(); <-served })
	return &host{t, l.(*transport.Listener), l.Addr().String()}
}

// process is one life of a client: its XIDs begin at 1.
type process struct {
	*testing.T
	conn   net.Conn
	in     *xdr.RecordReader
	socket net.Conn // below it
	cred   xdr.SysCred
	xid    uint32
}

// A way is a transport. WRITEs of 100,000 octets go by it as its name says.
type way struct {
	name string
	dial func(ctx context.Context, conn net.Conn) (net.Conn, error)
}

func overRDMA(cfg *transport.Config) func(context.Context, net.Conn) (net.Conn, error) {
	return func(ctx context.Context, conn net.Conn) (net.Conn, error) {
		c, err := transport.NewClient(ctx, conn, cfg)
		if err != nil {
			return nil, err
		}
		return transport.NewCallConn(c), nil
	}
}

var (
	chunked = way{"read chunks", overRDMA(&transport.Config{InlineSend: 4096})}
	inline  = way{"inline", overRDMA(nil)}
	stream  = way{"TCP", func(_ context.Context, conn net.Conn) (net.Conn, error) { return conn, nil }}
	ways    = []way{chunked, inline, stream}
)

// start starts a client on an address of this host.
func (h *host) start(w way, from string, cred xdr.SysCred) *process {
	h.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	nc, err := d.DialContext(h.Context(), "tcp", h.addr)
	if err != nil {
		h.Fatal(err)
	}
	c, err := w.dial(h.Context(), nc)
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		h.Fatal(err)
	}
	return &process{T: h.T, conn: c, in: xdr.NewRecordReader(c, 1<<20), socket: nc, cred: cred}
}

// call sends a call with the next XID.
func (p *process) call(prog, vers, proc uint32, args, res nfs3.Message) {
	p.Helper()
	p.xid++
	p.send(prog, vers, proc, args)
	p.receive(res)
}

func (p *process) send(prog, vers, proc uint32, args nfs3.Message) {
	p.Helper()
	if _, err := p.conn.Write(p.record(prog, vers, proc, args)); err != nil {
		p.Fatal(err)
	}
}

func (p *process) record(prog, vers, proc uint32, args nfs3.Message) []byte {
	msg := xdr.AppendCall(nil, &xdr.CallHeader{XID: p.xid, RPCVers: 2, Prog: prog, Vers: vers, Proc: proc, Cred: p.cred.Auth()})
	msg = args.Append(msg)
	return append(xdr.AppendRecordMark(nil, len(msg), true), msg...)
}

func (p *process) receive(res nfs3.Message) {
	p.Helper()
	rec, err := p.in.Next(nil)
	if err != nil {
		p.Fatal(err)
	}
	d := xdr.NewDecoder(rec)
	var h xdr.ReplyHeader
	if err := h.Parse(&d); err != nil || h.Err() != nil || h.XID != p.xid {
		p.Fatalf("%+v, %v", h, err)
	}
	if err := res.Parse(&d); err != nil {
		p.Fatal(err)
	}
}

// write is a WRITE of data at the start of a file.
func (p *process) write(f nfs3.FileHandle, data []byte) nfs3.Status {
	p.Helper()
	var res nfs3.WriteRes
	p.call(nfs3.Program, nfs3.Version, uint32(nfs3.ProcWrite), writeOf(f, data), &res)
	return res.Status
}

func writeOf(f nfs3.FileHandle, data []byte) *nfs3.WriteArgs {
	return &nfs3.WriteArgs{Handle: f, Count: uint32(len(data)), Stable: nfs3.FileSync, Data: data}
}

// read returns the first octets of a file.
func (p *process) read(f nfs3.FileHandle, n int) []byte {
	p.Helper()
	var res nfs3.ReadRes
	p.call(nfs3.Program, nfs3.Version, uint32(nfs3.ProcRead), &nfs3.ReadArgs{Handle: f, Count: uint32(n)}, &res)
	if res.Status != nfs3.OK {
		p.Fatalf("READ: %v", res.Status)
	}
	return res.Data
}

// file makes a file that user 1000 and group 100 may write.
func (h *host) file(w way) nfs3.FileHandle {
	h.Helper()
	p := h.start(w, "127.0.0.1", xdr.SysCred{MachineName: "admin"})
	var root mount3.MountRes
	p.call(mount3.Program, mount3.Version, uint32(mount3.ProcMnt), &mount3.PathArgs{Path: "/x"}, &root)
	args := nfs3.CreateArgs{Where: nfs3.DirOpArgs{Dir: root.Handle, Name: "f"}}
	args.Attr = nfs3.SetAttr{SetMode: true, Mode: 0o664, SetGID: true, GID: 100}
	var made nfs3.NewRes
	p.call(nfs3.Program, nfs3.Version, uint32(nfs3.ProcCreate), &args, &made)
	if made.Status != nfs3.OK || !made.Handle.Present {
		h.Fatalf("CREATE: %v", made.Status)
	}
	return made.Handle.Handle
}

// data are octets that differ from those of another seed in the last one only.
func data(seed byte) []byte { return append(bytes.Repeat([]byte("stag!"), 20_000-1), 1, 2, 3, 4, seed) }

// TestRestartedClient: a client that was started twice uses its XIDs again. Its WRITEs of other data are
// executed, however they come; one that comes again is answered and not executed, although another
// WRITE has come since.
func TestRestartedClient(t *testing.T) {
	restartedClient(t, ways, newHost)
	t.Run("listener", func(t *testing.T) { restartedClient(t, []way{chunked, inline}, newListeningHost) })
}

func restartedClient(t *testing.T, ways []way, start func(*testing.T) *host) {
	cred := xdr.SysCred{MachineName: "client", UID: 1000, GIDs: []uint32{100}}
	for _, first := range ways {
		for _, second := range ways {
			t.Run(first.name+", then "+second.name, func(t *testing.T) {
				h := start(t)
				f := h.file(second)
				old := h.start(first, "127.0.0.1", cred)
				if got := old.write(f, data('a')); got != nfs3.OK {
					t.Fatal(got)
				}
				p := h.start(second, "127.0.0.1", cred)
				p.cred.Stamp++
				if got := p.write(f, data('b')); got != nfs3.OK {
					t.Fatal(got)
				}
				if got := p.read(f, 200_000); !bytes.Equal(got, data('b')) {
					t.Errorf("OK for a WRITE that was not executed: the file ends with %q", got[len(got)-1])
				}
				p.xid = 10
				if got := p.write(f, data('c')); got != nfs3.OK {
					t.Fatal(got)
				}
				again := h.start(first, "127.0.0.1", cred)
				for _, seed := range []byte("ab") {
					again.xid = 0
					if got := again.write(f, data(seed)); got != nfs3.OK {
						t.Fatal(got)
					}
				}
				if got := p.read(f, 200_000); !bytes.Equal(got, data('c')) {
					t.Errorf("a WRITE was executed twice: the file ends with %q", got[len(got)-1])
				}
				if st := h.s.Stats(); st.Replayed != 2 || st.Unsure != 0 {
					t.Errorf("%+v", st)
				}
			})
		}
	}
}

// TestOtherClient: nobody gets the reply to a call of another client, which differs in one group, or
// calls from another address.
func TestOtherClient(t *testing.T) {
	member := xdr.SysCred{MachineName: "client", UID: 1000, GID: 1000, GIDs: []uint32{4, 100}}
	stranger := member
	stranger.GIDs = []uint32{4, 101}
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			h := newHost(t)
			f := h.file(w)
			if got := h.start(w, "127.0.0.1", member).write(f, data('a')); got != nfs3.OK {
				t.Fatal(got)
			}
			if got := h.start(w, "127.0.0.1", stranger).write(f, data('a')); got != nfs3.ErrAcces {
				t.Errorf("who is not in the group gets the reply to who is: %v", got)
			}
			p := h.start(w, "127.0.0.1", member)
			p.xid = 10
			if got := p.write(f, data('b')); got != nfs3.OK {
				t.Fatal(got)
			}
			if got := h.start(w, "127.0.0.2", member).write(f, data('a')); got != nfs3.OK {
				t.Fatal(got)
			}
			if got := p.read(f, 200_000); !bytes.Equal(got, data('a')) {
				t.Errorf("the WRITE from another address was not executed: the file ends with %q", got[len(got)-1])
			}
			if st := h.s.Stats(); st.Replayed != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// TestRefusedAgain: a WRITE that was refused with its data unread is looked at anew: what it would be
// compared with is not known.
func TestRefusedAgain(t *testing.T) {
	h := newHost(t)
	f := h.file(stream)
	cred := xdr.SysCred{MachineName: "client", UID: 1001, GID: 1001}
	if got := h.start(chunked, "127.0.0.1", cred).write(f, data('a')); got != nfs3.ErrAcces {
		t.Fatal(got)
	}
	admin := h.start(stream, "127.0.0.1", xdr.SysCred{MachineName: "admin"})
	admin.xid = 10
	var res nfs3.WccRes
	admin.call(nfs3.Program, nfs3.Version, uint32(nfs3.ProcSetAttr), &nfs3.SetAttrArgs{Handle: f, Attr: nfs3.SetAttr{SetMode: true, Mode: 0o666}}, &res)
	if res.Status != nfs3.OK {
		t.Fatal(res.Status)
	}
	p := h.start(chunked, "127.0.0.1", cred)
	if got := p.write(f, data('b')); got != nfs3.OK {
		t.Errorf("another WRITE: %v", got)
	}
	if got := p.read(f, 200_000); !bytes.Equal(got, data('b')) {
		t.Error("not executed")
	}
}

// TestOtherPort: what a port refuses, since it serves other programs, is executed on the port that serves
// it, with the same XID.
func TestOtherPort(t *testing.T) {
	h := newHost(t)
	f := h.file(stream)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	s := h.s.(*transport.Server)
	go func() { served <- s.ServeStreamHandler(l, nothingServed{}) }()
	defer func() { _ = s.Close(); <-served }()
	there := *h
	there.addr = l.Addr().String()
	p := there.start(stream, "127.0.0.1", someone)
	p.xid = 1
	p.send(nfs3.Program, nfs3.Version, uint32(nfs3.ProcWrite), writeOf(f, data('a')))
	rec, err := p.in.Next(nil)
	if err != nil {
		t.Fatal(err)
	}
	var r xdr.ReplyHeader
	d := xdr.NewDecoder(rec)
	if err := r.Parse(&d); err != nil || r.Accept != xdr.ProgUnavail {
		t.Fatalf("%+v, %v", r, err)
	}
	if got := h.start(stream, "127.0.0.1", someone).write(f, data('a')); got != nfs3.OK {
		t.Error(got)
	}
}

type nothingServed struct{}

func (nothingServed) ServeRPC(_ context.Context, _ *rpc.Request, resp *rpc.Response) {
	resp.Stat = xdr.ProgUnavail
}
