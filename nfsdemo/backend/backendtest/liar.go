package backendtest

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/internal/accept"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Liar is an NFS server that lies about its directories, and, if told to, answers calls that nobody made. It serves the export /export. All its directories are the same one; removing works, and changes nothing.
type Liar struct {
	// Page returns the entries that follow a cookie, and whether the directory ends with them.
	Page func(cookie uint64) (entries []Entry, eof bool)
	// NoPlus: READDIRPLUS is not supported.
	NoPlus bool
	// Strays: a call that lists a directory gets replies to other calls, without end.
	Strays bool
	// Crumbs: READ and WRITE move one octet each, and no file ends.
	Crumbs bool
}

// Entry is a name in a directory: an empty file, or a directory.
type Entry struct {
	Name   string
	Cookie uint64
	Dir    bool
}

// The handles of all directories and of all files.
var (
	dirHandle  = nfs3.FileHandle{1}
	fileHandle = nfs3.FileHandle{2}
)

// attrOf returns the attributes of a handle.
func attrOf(dir bool) (nfs3.FileHandle, *nfs3.Attr) {
	if dir {
		return dirHandle, &nfs3.Attr{Type: nfs3.TypeDir, Mode: 0o755, Nlink: 2}
	}
	return fileHandle, &nfs3.Attr{Type: nfs3.TypeReg, Mode: 0o644, Nlink: 1}
}

// ServeRPC implements [rpc.Handler].
func (s *Liar) ServeRPC(_ context.Context, req *rpc.Request, resp *rpc.Response) {
	d := xdr.NewDecoder(req.Args)
	var res xdr.Message
	if req.Prog == mount3.Program {
		res = mounted(mount3.Proc(req.Proc))
	} else {
		res = s.answer(nfs3.Proc(req.Proc), &d)
	}
	switch {
	case req.Proc == 0: // NULL, of either program
	case res == nil:
		resp.Stat = xdr.ProcUnavail
	default:
		resp.Results = xdr.Encode(resp.Results, res)
	}
}

func mounted(proc mount3.Proc) xdr.Message {
	switch proc {
	case mount3.ProcMnt:
		return &mount3.MountRes{Handle: dirHandle, Flavors: []xdr.AuthFlavor{xdr.AuthSys}}
	case mount3.ProcExport:
		return &mount3.ExportRes{Exports: []mount3.Export{{Dir: "/export"}}}
	default:
		return nil
	}
}

// answer returns the results of a procedure, nil if there is no such thing. The clients under test send valid
// arguments.
func (s *Liar) answer(proc nfs3.Proc, d *xdr.Decoder) xdr.Message {
	switch proc {
	case nfs3.ProcFSInfo:
		return &nfs3.FSInfoRes{RTMax: 4096, WTMax: 4096, DTPref: 64 << 10}
	case nfs3.ProcGetAttr:
		var a nfs3.GetAttrArgs
		_ = xdr.Decode(d, &a).Err()
		_, attr := attrOf(a.Handle[0] == dirHandle[0])
		return &nfs3.GetAttrRes{Attr: *attr}
	case nfs3.ProcLookup:
		var a nfs3.LookupArgs
		_ = xdr.Decode(d, &a).Err()
		return s.lookup(a.Name)
	case nfs3.ProcRead:
		if s.Crumbs {
			return &nfs3.ReadRes{Count: 1, Data: []byte{'x'}}
		}
		return &nfs3.ReadRes{EOF: true}
	case nfs3.ProcWrite:
		return &nfs3.WriteRes{Count: 1, Committed: nfs3.FileSync}
	case nfs3.ProcRemove, nfs3.ProcRmdir:
		return &nfs3.RemoveRes{}
	case nfs3.ProcReadDir:
		var a nfs3.ReadDirArgs
		_ = xdr.Decode(d, &a).Err()
		page, eof := s.Page(a.Cookie)
		res := &nfs3.ReadDirRes{EOF: eof}
		for _, e := range page {
			res.Entries = append(res.Entries, nfs3.DirEntry{FileID: 1, Name: e.Name, Cookie: e.Cookie})
		}
		return res
	case nfs3.ProcReadDirPlus:
		var a nfs3.ReadDirPlusArgs
		_ = xdr.Decode(d, &a).Err()
		return s.plus(a.Cookie)
	default:
		return nil
	}
}

// lookup finds the name in the first page. The name of the directory that a test lists is in none.
func (s *Liar) lookup(name string) xdr.Message {
	dir := true
	page, _ := s.Page(0)
	for _, e := range page {
		if e.Name == name {
			dir = e.Dir
		}
	}
	fh, attr := attrOf(dir)
	return &nfs3.LookupRes{Handle: fh, Attr: nfs3.SomeAttr(attr)}
}

func (s *Liar) plus(cookie uint64) xdr.Message {
	if s.NoPlus {
		return &nfs3.ReadDirPlusRes{Status: nfs3.ErrNotSupp}
	}
	page, eof := s.Page(cookie)
	res := &nfs3.ReadDirPlusRes{EOF: eof}
	for _, e := range page {
		fh, attr := attrOf(e.Dir)
		res.Entries = append(res.Entries, nfs3.DirPlusEntry{
			DirEntry: nfs3.DirEntry{FileID: 1, Name: e.Name, Cookie: e.Cookie},
			Attr:     nfs3.SomeAttr(attr), Handle: nfs3.SomeHandle(fh),
		})
	}
	return res
}

// Listen serves s until the test ends, over RDMA or over TCP, and returns the URL of the export.
func (s *Liar) Listen(t testing.TB, rdma bool) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	stop := l.Close
	scheme := "nfs://"
	switch ts := (&transport.Server{Handler: s}); {
	case rdma:
		scheme = "nfs+rdma://"
		if s.Strays {
			wg.Go(func() { eachConn(l, s.rdma) })
			break
		}
		stop = ts.Close
		wg.Go(func() { _ = ts.Serve(l) })
	case s.Strays:
		wg.Go(func() { eachConn(l, s.stream) })
	default:
		stop = ts.Close
		wg.Go(func() { _ = ts.ServeStream(l) })
	}
	t.Cleanup(func() {
		_ = stop()
		wg.Wait()
	})
	return scheme + l.Addr().String() + "/export"
}

// eachConn runs serve with each connection, until l is closed and all of them have ended.
func eachConn(l net.Listener, serve func(net.Conn)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	_ = accept.Serve(context.Background(), l, func(c net.Conn) { wg.Go(func() { serve(c) }) })
}

// stream answers calls over record-marked TCP.
func (s *Liar) stream(c net.Conn) {
	defer c.Close()
	r := xdr.NewRecordReader(c, 1<<20)
	for {
		msg, err := r.Next(nil)
		if err != nil {
			return
		}
		s.reply(msg, func(_ uint32, reply []byte) error {
			_, err := c.Write(append(binary.BigEndian.AppendUint32(nil, 1<<31|uint32(len(reply))), reply...))
			return err
		})
	}
}

// rdma answers calls over RDMA, inline.
func (s *Liar) rdma(nc net.Conn) {
	priv := rpcrdma.PrivateData{SendSize: 4096, RecvSize: 4096}.Append(nil)
	c := rdmap.Server(nc, &rdmap.Config{
		Startup:  rdmap.Startup{PrivateData: priv, Accept: func(*mpa.Request) ([]byte, error) { return priv, nil }},
		Receives: rdmap.Receives{Size: 4096, Count: 100}, Timeouts: rdmap.Timeouts{Close: time.Second},
	})
	ctx := context.Background()
	if c.Handshake(ctx) != nil {
		return
	}
	defer func() {
		c.Abort(nil)
		<-c.Done()
	}()
	for {
		m, err := c.Recv(ctx)
		if err != nil {
			return
		}
		var h rpcrdma.Header
		n, err := h.Decode(m.Data, nil)
		if err != nil {
			return
		}
		s.reply(m.Data[n:], func(xid uint32, reply []byte) error {
			h := rpcrdma.Header{XID: xid, Vers: 1, Credit: 8}
			return c.Send(ctx, append(h.Append(nil), reply...))
		})
	}
}

// reply answers one call, or sends replies to calls that nobody made until the connection ends.
func (s *Liar) reply(msg []byte, send func(xid uint32, reply []byte) error) {
	d := xdr.NewDecoder(msg)
	var req rpc.Request
	if err := req.CallHeader.Parse(&d); err != nil {
		return
	}
	req.Args = d.Rest()
	var resp rpc.Response
	s.ServeRPC(context.Background(), &req, &resp)
	form := func(xid uint32) []byte {
		return append(xdr.AppendReply(nil, &xdr.ReplyHeader{XID: xid, Accept: resp.Stat}), resp.Results...)
	}
	list := req.Prog == nfs3.Program && (nfs3.Proc(req.Proc) == nfs3.ProcReadDir || nfs3.Proc(req.Proc) == nfs3.ProcReadDirPlus)
	if !list {
		_ = send(req.XID, form(req.XID)) // the next Recv fails too
		return
	}
	for xid := req.XID + 1<<20; send(xid, form(xid)) == nil; xid++ {
		time.Sleep(time.Microsecond) // the client has the same two processors
	}
}
