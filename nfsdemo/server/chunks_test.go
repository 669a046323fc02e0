package server_test

import (
	"bytes"
	"net"
	"testing"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/xdr"
)

// handMade is an RDMA connection to a server on which the test writes each header itself.
type handMade struct {
	*peer
	conn *rdmap.Conn
}

// newHandMade serves memory and connects to it.
func newHandMade(t *testing.T) *handMade {
	t.Helper()
	return newHandMadeOver(t, newServer(t, mem.New(nil)))
}

// newHandMadeOver connects to a server.
func newHandMadeOver(t *testing.T, srv *server.Server) *handMade {
	t.Helper()
	return newHandMadeAt(t, srv, overRDMA(t, &transport.Server{Handler: srv}))
}

// overRDMA serves until the test ends.
func overRDMA(t *testing.T, s *transport.Server) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l)
	t.Cleanup(func() { _ = s.Close() })
	return l.Addr().String()
}

// newHandMadeAt connects to where a server is served.
func newHandMadeAt(t *testing.T, srv *server.Server, addr string) *handMade {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c := rdmap.Client(nc, &rdmap.Config{
		Startup:  rdmap.Startup{PrivateData: rpcrdma.PrivateData{SendSize: 4096, RecvSize: 4096}.Append(nil), IRD: 5, MULPDU: 999},
		Receives: rdmap.Receives{Size: 4096, Count: 100}, Timeouts: rdmap.Timeouts{Close: time.Second},
	})
	if err := c.Handshake(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Abort(nil); <-c.Done() })
	return &handMade{newPeer(t, srv, sys(0, 0)), c}
}

// offer makes m reachable and describes it.
func (h *handMade) offer(m []byte, a region.Access) chunks.Segment {
	h.Helper()
	r, err := h.conn.Register(m, a)
	if err != nil {
		h.Fatal(err)
	}
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
	if err := h.conn.Send(h.Context(), append(xdr.AppendCall(hd.Append(nil), &call), args...)); err != nil {
		h.Fatal(err)
	}
	m, err := h.conn.Recv(h.Context())
	if err != nil {
		h.Fatal(err)
	}
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
	if err := r.Parse(&d); err != nil {
		h.Fatal(err)
	}
	return got, r, d.Rest()
}

func readAt(pos uint32, s ...chunks.Segment) chunks.Lists {
	var l chunks.Lists
	for _, v := range s {
		l.Read = append(l.Read, chunks.ReadSegment{Position: pos, Segment: v})
	}
	return l
}

// TestBindingOfCalls breaks the NFSv3 binding (RFC 8267 Section 4) in calls: nothing is
// executed.
func TestBindingOfCalls(t *testing.T) {
	h := newHandMade(t)
	f := h.create(h.root, "f", 0o644)
	h.write(f, 0, "as it was")
	seg := h.offer(bytes.Repeat([]byte("x"), 64), region.RemoteRead)
	head := func(count uint32) []byte {
		a := nfs3.WriteArgs{Handle: f, Count: count, Stable: nfs3.FileSync}
		return a.AppendHead(nil)
	}
	at64 := h.callSize() + uint32(len(head(64)))
	two := readAt(at64, seg)
	two.Read = append(two.Read, chunks.ReadSegment{Position: at64 + 64, Segment: seg})
	short := seg
	short.Length = 60
	getattr := (&nfs3.HandleArgs{Handle: f}).Append(nil)
	for _, tt := range []struct {
		name    string
		proc    nfs3.Proc
		lists   chunks.Lists
		args    []byte
		garbage bool // else ERR_CHUNK
	}{
		{"GETATTR with its handle by chunk", nfs3.ProcGetAttr, readAt(h.callSize()+4, seg), getattr[:4], false},
		{"GETATTR with a chunk behind it", nfs3.ProcGetAttr, readAt(h.callSize()+uint32(len(getattr)), seg), getattr, false},
		{"WRITE with its handle by chunk", nfs3.ProcWrite, readAt(h.callSize()+4, seg), head(64), false},
		{"WRITE with two chunks", nfs3.ProcWrite, two, head(64), false},
		{"WRITE by a chunk that is short", nfs3.ProcWrite, readAt(at64, short), head(64), true},
		{"WRITE by a chunk that is long", nfs3.ProcWrite, readAt(at64, seg), head(60), true},
		{"REMOVE with a name by chunk", nfs3.ProcRemove, readAt(h.callSize()+uint32(len(getattr))+4, seg), append(getattr, 0, 0, 0, 64), false},
	} {
		got, r, _ := h.rdma(tt.proc, tt.lists, tt.args)
		switch {
		case tt.garbage && (got.Type != rpcrdma.MsgTypeMsg || r.Accept != xdr.GarbageArgs):
			t.Errorf("%s: %+v, RPC %+v, want GARBAGE_ARGS", tt.name, got, r)
		case !tt.garbage && (got.Type != rpcrdma.MsgTypeError || got.Err != rpcrdma.ErrChunk):
			t.Errorf("%s: %+v, want ERR_CHUNK", tt.name, got)
		}
	}
	// The count of WRITE3args and that of the opaque differ: for NFS to say.
	a := nfs3.WriteArgs{Handle: f, Count: 5, Stable: nfs3.FileSync}
	b := a.AppendHead(nil)
	copy(b[len(b)-4:], []byte{0, 0, 0, 64})
	_, _, res := h.rdma(nfs3.ProcWrite, readAt(at64, seg), b)
	d := xdr.NewDecoder(res)
	if st := nfs3.Status(d.Uint32()); st != nfs3.ErrInval {
		t.Errorf("counts that differ: %v", st)
	}
	if got := h.read(f, 0, 100); string(got.Data) != "as it was" {
		t.Errorf("the file holds %q", got.Data)
	}
}

// TestChunksOfResults: eligible results take the write chunks, all others leave them
// unused, and nothing is written beyond the data (RFC 8166 Section 4.3.2).
func TestChunksOfResults(t *testing.T) {
	h := newHandMade(t)
	f, gone := h.create(h.root, "f", 0o644), h.create(h.root, "gone", 0o644)
	h.write(f, 0, "0123456789")
	nfs[nfs3.RemoveRes](h.peer, nfs3.ProcRemove, new(at(h.root, "gone")), nfs3.OK)
	link := nfs[nfs3.SymlinkRes](h.peer, nfs3.ProcSymlink, &nfs3.SymlinkArgs{Where: at(h.root, "l"), Path: "to/there"}, nfs3.OK).Handle.Handle
	read := func(fh nfs3.FileHandle, off uint64, n uint32) []byte {
		return (&nfs3.ReadArgs{Handle: fh, Offset: off, Count: n}).Append(nil)
	}
	handle := func(fh nfs3.FileHandle) []byte { return (&nfs3.HandleArgs{Handle: fh}).Append(nil) }
	for _, tt := range []struct {
		name   string
		proc   nfs3.Proc
		args   []byte
		room   []int // segments of the first write chunk; none: empty chunk
		status nfs3.Status
		want   string // placed
		inline string
		chunk  bool // ERR_CHUNK
	}{
		{"READ", nfs3.ProcRead, read(f, 0, 10), []int{10}, nfs3.OK, "0123456789", "", false},
		{"READ, short", nfs3.ProcRead, read(f, 0, 64), []int{3, 61}, nfs3.OK, "0123456789", "", false},
		{"READ, 3 octets and room for pad", nfs3.ProcRead, read(f, 7, 3), []int{3, 1}, nfs3.OK, "789", "", false},
		{"READ at the end", nfs3.ProcRead, read(f, 10, 64), []int{64}, nfs3.OK, "", "", false},
		{"READ, empty chunk", nfs3.ProcRead, read(f, 0, 64), nil, nfs3.OK, "", "0123456789\x00\x00", false},
		{"READ, no room", nfs3.ProcRead, read(f, 0, 10), []int{9}, nfs3.OK, "", "", true},
		{"READ of a file that is gone", nfs3.ProcRead, read(gone, 0, 64), []int{64}, nfs3.ErrStale, "", "", false},
		{"READ of a directory", nfs3.ProcRead, read(h.root, 0, 64), []int{64}, nfs3.ErrInval, "", "", false},
		{"READLINK", nfs3.ProcReadLink, handle(link), []int{64}, nfs3.OK, "to/there", "", false},
		{"GETATTR", nfs3.ProcGetAttr, handle(f), []int{64}, nfs3.OK, "", "", false},
		{"FSINFO", nfs3.ProcFSInfo, handle(h.root), []int{64}, nfs3.OK, "", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, spare := bytes.Repeat([]byte{0xa5}, 96), bytes.Repeat([]byte{0xa5}, 8)
			whole := h.offer(m, region.RemoteWrite)
			first := chunks.WriteChunk{}
			for _, n := range tt.room {
				s := whole
				s.Length = uint32(n)
				whole.Offset += uint64(n)
				first = append(first, s)
			}
			unused := chunks.WriteChunk{h.offer(spare, region.RemoteWrite)}
			got, r, res := h.rdma(tt.proc, chunks.Lists{Write: []chunks.WriteChunk{first, unused}}, tt.args)
			if tt.chunk {
				if got.Type != rpcrdma.MsgTypeError || got.Err != rpcrdma.ErrChunk {
					t.Errorf("%+v, want ERR_CHUNK", got)
				}
			} else {
				if r.Err() != nil || len(got.Write) != 2 || len(got.Write[0]) != len(first) {
					t.Fatalf("%+v, RPC %v", got, r.Err())
				}
				if n, err := chunks.Returned(first, got.Write[0]); err != nil || n != len(tt.want) {
					t.Errorf("%d octets reported as written, %v, want %d", n, err, len(tt.want))
				}
				if got.Write[1].Room() != 0 {
					t.Errorf("the second chunk is used: %+v", got.Write[1])
				}
				d := xdr.NewDecoder(res)
				if st := nfs3.Status(d.Uint32()); st != tt.status {
					t.Errorf("%v, want %v", st, tt.status)
				}
				if !bytes.HasSuffix(res, []byte(tt.inline)) {
					t.Errorf("results end in %x, want %q", res, tt.inline)
				}
			}
			if !bytes.HasPrefix(m, []byte(tt.want)) || bytes.Count(m[len(tt.want):], []byte{0xa5}) != 96-len(tt.want) || bytes.Count(spare, []byte{0xa5}) != 8 {
				t.Errorf("memory %q, %q", m, spare)
			}
		})
	}
}

// TestSymlinkByChunk: the other argument that may be reduced.
func TestSymlinkByChunk(t *testing.T) {
	h := newHandMade(t)
	path := "a/path/of/odd/length"[:19]
	args := nfs3.SymlinkArgs{Where: at(h.root, "l"), Path: path}
	b := args.Append(nil)
	b = b[:len(b)-len(path)-xdr.Pad(len(path))]
	seg := h.offer([]byte(path), region.RemoteRead)
	_, r, res := h.rdma(nfs3.ProcSymlink, readAt(h.callSize()+uint32(len(b)), seg), b)
	var got nfs3.SymlinkRes
	d := xdr.NewDecoder(res)
	if err := got.Parse(&d); err != nil || r.Err() != nil || got.Status != nfs3.OK {
		t.Fatalf("%v, %v, %v", r.Err(), err, got.Status)
	}
	if to := nfs[nfs3.ReadLinkRes](h.peer, nfs3.ProcReadLink, &nfs3.HandleArgs{Handle: got.Handle.Handle}, nfs3.OK); to.Path != path {
		t.Errorf("the link says %q", to.Path)
	}
}
