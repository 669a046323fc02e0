package server_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

func TestMain(m *testing.M) { rdmaptest.Main(m) }

// peer is a client of a server under test, without a network between them.
type peer struct {
	*testing.T
	srv  *server.Server
	cred xdr.Auth
	addr net.Addr
	xid  uint32
	root nfs3.FileHandle
}

var testAddr = net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.7:1023"))

// sys is an AUTH_SYS credential.
func sys(uid, gid uint32, gids ...uint32) xdr.Auth {
	c := xdr.SysCred{MachineName: "client", UID: uid, GID: gid, GIDs: gids}
	return c.Auth()
}

// newServer serves one export "/export" without squashing.
func newServer(t *testing.T, fsys backend.FS, change ...func(*server.Config)) *server.Server {
	t.Helper()
	cfg := &server.Config{Exports: []server.Export{{Path: "/export", FS: fsys, Squash: server.SquashNone}}}
	for _, f := range change {
		f(cfg)
	}
	s := must(server.New(cfg))(t)
	return s
}

// newPeer mounts the export with a credential.
func newPeer(t *testing.T, s *server.Server, cred xdr.Auth) *peer {
	t.Helper()
	p := &peer{T: t, srv: s, cred: cred, addr: testAddr}
	p.root = p.mount("/export")
	return p
}

// as is the same client with another credential.
func (p *peer) as(cred xdr.Auth) *peer {
	q := *p
	q.cred = cred
	return &q
}

// mount is MNT.
func (p *peer) mount(path string) nfs3.FileHandle {
	p.Helper()
	var res mount3.MountRes
	p.rpc(mount3.Program, mount3.Version, uint32(mount3.ProcMnt), &mount3.PathArgs{Path: path}, &res)
	if res.Status != mount3.OK {
		p.Fatalf("mount %s: %v", path, res.Status)
	}
	return res.Handle
}

// raw sends a call and returns the reply's header and results.
func (p *peer) raw(prog, vers, proc uint32, args []byte) (xdr.ReplyHeader, []byte) {
	p.Helper()
	p.xid++
	msg := xdr.AppendCall(nil, &xdr.CallHeader{
		XID: p.xid, RPCVers: 2, Prog: prog, Vers: vers, Proc: proc, Cred: p.cred,
	})
	out, ok := rpc.ServeMessage(context.Background(), p.srv, p.addr, append(msg, args...), nil)
	if !ok {
		p.Fatal("no reply")
	}
	d := xdr.NewDecoder(out)
	var h xdr.ReplyHeader
	if err := h.Parse(&d); err != nil || h.XID != p.xid {
		p.Fatalf("reply header %+v: %v", h, err)
	}
	return h, d.Rest()
}

// rpc does a call that must be accepted, and reads its results to the last octet.
func (p *peer) rpc(prog, vers, proc uint32, args, res xdr.Message) {
	p.Helper()
	h, body := p.raw(prog, vers, proc, xdr.Encode(nil, args))
	if err := h.Err(); err != nil {
		p.Fatalf("procedure %d: %v", proc, err)
	}
	d := xdr.NewDecoder(body)
	if err := xdr.Decode(&d, res).Err(); err != nil || d.Len() != 0 {
		p.Fatalf("results of procedure %d: %v, %d octets left over", proc, err, d.Len())
	}
}

// nfs does an NFS call and demands a status that the procedure may answer.
func nfs[R any, P interface {
	*R
	nfs3.Result
}](p *peer, proc nfs3.Proc, args xdr.Message, want nfs3.Status) *R {
	p.Helper()
	res := P(new(R))
	p.rpc(nfs3.Program, nfs3.Version, uint32(proc), args, res)
	if got := *res.Stat(); got != want {
		p.Errorf("%v: got %v, want %v", proc, got, want)
	}
	if !server.May(proc, *res.Stat()) {
		p.Errorf("%v must not answer %v", proc, *res.Stat())
	}
	return (*R)(res)
}

func at(dir nfs3.FileHandle, name string) nfs3.DirOpArgs { return nfs3.DirOpArgs{Dir: dir, Name: name} }

func mode(m uint32) nfs3.SetAttr { return nfs3.SetAttr{SetMode: true, Mode: m} }

// create is a CREATE that must succeed.
func (p *peer) create(dir nfs3.FileHandle, name string, m uint32) nfs3.FileHandle {
	p.Helper()
	r := nfs[nfs3.CreateRes](p, nfs3.ProcCreate, &nfs3.CreateArgs{Where: at(dir, name), Mode: nfs3.Guarded, Attr: mode(m)}, nfs3.OK)
	return r.Handle.Handle
}

// mkdir is a MKDIR that must succeed.
func (p *peer) mkdir(dir nfs3.FileHandle, name string, m uint32) nfs3.FileHandle {
	p.Helper()
	return nfs[nfs3.MkdirRes](p, nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: at(dir, name), Attr: mode(m)}, nfs3.OK).Handle.Handle
}

// write is a WRITE that must succeed.
func (p *peer) write(h nfs3.FileHandle, off uint64, data string) *nfs3.WriteRes {
	p.Helper()
	return nfs[nfs3.WriteRes](p, nfs3.ProcWrite, &nfs3.WriteArgs{
		Handle: h, Offset: off, Count: uint32(len(data)), Data: []byte(data),
	}, nfs3.OK)
}

// read is a READ that must succeed.
func (p *peer) read(h nfs3.FileHandle, off uint64, n uint32) *nfs3.ReadRes {
	p.Helper()
	return nfs[nfs3.ReadRes](p, nfs3.ProcRead, &nfs3.ReadArgs{Handle: h, Offset: off, Count: n}, nfs3.OK)
}

// attr is a GETATTR that must succeed.
func (p *peer) attr(h nfs3.FileHandle) nfs3.Attr {
	p.Helper()
	return nfs[nfs3.GetAttrRes](p, nfs3.ProcGetAttr, &nfs3.HandleArgs{Handle: h}, nfs3.OK).Attr
}

// lookup is a LOOKUP with a status.
func (p *peer) lookup(dir nfs3.FileHandle, name string, want nfs3.Status) *nfs3.LookupRes {
	p.Helper()
	a := at(dir, name)
	return nfs[nfs3.LookupRes](p, nfs3.ProcLookup, &a, want)
}

// onBoth runs a test over both backends, as root without squashing.
func onBoth(t *testing.T, f func(p *peer)) {
	t.Helper()
	t.Run("mem", func(t *testing.T) { f(newPeer(t, newServer(t, mem.New(nil)), sys(0, 0))) })
	t.Run("dir", func(t *testing.T) {
		f(newPeer(t, newServer(t, newDir(t, nil)), sys(0, 0)))
	})
}

// onJudging is onBoth without a backend that takes everybody for the user of this process.
func onJudging(t *testing.T, f func(p *peer)) {
	t.Helper()
	onBoth(t, func(p *peer) {
		if !p.srv.FirstFS().Info().Owners {
			p.Skip("this process acts for nobody else: run it as root")
		}
		f(p)
	})
}

// newDir is a dir backend over an empty directory.
func newDir(t testing.TB, cfg *dir.Config) *dir.FS {
	t.Helper()
	if cfg == nil {
		cfg = &dir.Config{Async: true}
	}
	fsys := must(dir.New(t.TempDir(), cfg))(t)
	t.Cleanup(func() { _ = fsys.Close() })
	return fsys
}

func name(i int) string { return fmt.Sprintf("name-%04d", i) }

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

// handMade is an RDMA connection to a server on which the test writes each header itself.
type handMade struct {
	*peer
	conn *rdmap.Conn
}

// newHandMadeOver connects to a server.
func newHandMadeOver(t *testing.T, srv *server.Server) *handMade {
	t.Helper()
	return newHandMadeAt(t, srv, overRDMA(t, &transport.Server{Handler: srv}))
}

// overRDMA serves until the test ends.
func overRDMA(t *testing.T, s *transport.Server) (addr string) {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	go s.Serve(l)
	t.Cleanup(func() { _ = s.Close() })
	return l.Addr().String()
}

// newHandMadeAt connects to where a server is served.
func newHandMadeAt(t *testing.T, srv *server.Server, addr string) *handMade {
	t.Helper()
	nc := must(net.Dial("tcp", addr))(t)
	c := rdmap.Client(nc, &rdmap.Config{
		Startup:  rdmap.Startup{PrivateData: rpcrdma.PrivateData{SendSize: 4096, RecvSize: 4096}.Append(nil), IRD: 5, MULPDU: 999},
		Receives: rdmap.Receives{Size: 4096, Count: 100}, Timeouts: rdmap.Timeouts{Close: time.Second},
	})
	noErr(t, c.Handshake(t.Context()))
	t.Cleanup(func() { c.Abort(nil); <-c.Done() })
	return &handMade{newPeer(t, srv, sys(0, 0)), c}
}

// offer makes m reachable and describes it.
func (h *handMade) offer(m []byte, a region.Access) chunks.Segment {
	h.Helper()
	r := must(h.conn.Register(m, a))(h)
	return chunks.Segment{Handle: chunks.Handle(r.STag()), Length: uint32(len(m))}
}

// callSize is the call header of rdma: positions of read chunks count it.
func (h *handMade) callSize() uint32 {
	return uint32((&xdr.CallHeader{Cred: h.cred}).Size())
}

// rdma sends an NFS call with chunk lists and returns both headers and the results.
func (h *handMade) rdma(proc nfs3.Proc, lists chunks.Lists, args []byte) (rpcrdma.Header, xdr.ReplyHeader, []byte) {
	h.Helper()
	hd := rpcrdma.Header{XID: 77, Vers: 1, Credit: 4, Lists: lists}
	call := xdr.CallHeader{XID: 77, RPCVers: 2, Prog: nfs3.Program, Vers: nfs3.Version, Proc: uint32(proc), Cred: h.cred}
	noErr(h, h.conn.Send(h.Context(), append(xdr.AppendCall(hd.Append(nil), &call), args...)))
	m := must(h.conn.Recv(h.Context()))(h)
	var got rpcrdma.Header
	n, err := got.Decode(m.Data, nil)
	if err != nil || got.XID != 77 {
		h.Fatalf("answer %+v, %v", got, err)
	}
	var r xdr.ReplyHeader
	if got.Type != rpcrdma.MsgTypeMsg {
		return got, r, nil
	}
	d := xdr.NewDecoder(m.Data[n:])
	noErr(h, r.Parse(&d))
	return got, r, d.Rest()
}

func readAt(pos uint32, s ...chunks.Segment) chunks.Lists {
	var l chunks.Lists
	for _, v := range s {
		l.Read = append(l.Read, chunks.ReadSegment{Position: pos, Segment: v})
	}
	return l
}
