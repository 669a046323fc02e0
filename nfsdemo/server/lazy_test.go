package server_test

import (
	"bytes"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// lazyWrite does a WRITE of n octets in seg and returns its status.
func (h *handMade) lazyWrite(f nfs3.FileHandle, off uint64, seg chunks.Segment) nfs3.Status {
	h.Helper()
	a := nfs3.WriteArgs{Handle: f, Offset: off, Count: seg.Length, Stable: nfs3.Unstable}
	args := xdr.AppendUint32(xdr.Encode(nil, a.Head()), a.Count)
	got, r, res := h.rdma(nfs3.ProcWrite, readAt(h.callSize()+uint32(len(args)), seg), args)
	d := xdr.NewDecoder(res)
	var w nfs3.WriteRes
	if err := xdr.Decode(&d, &w).Err(); got.Type != rpcrdma.MsgTypeMsg || r.Err() != nil || err != nil {
		h.Fatalf("%+v, %v, %v", got, r.Err(), err)
	}
	if w.Status == nfs3.OK && w.Count != seg.Length {
		h.Errorf("%d octets written of %d", w.Count, seg.Length)
	}
	return w.Status
}

// serve changes what is served.
func (h *handMade) serve(e server.Export) {
	h.Helper()
	noErr(h, h.srv.SetExports([]server.Export{e}))
}

// TestWriteRefusedUnread: a WRITE that cannot be done is refused without an octet of its data
// being read: its chunk names memory that is not there, and the connection lives.
func TestWriteRefusedUnread(t *testing.T) {
	fsys := mem.New(&mem.Config{Capacity: 1 << 19})
	h := newHandMadeOver(t, newServer(t, fsys))
	f, private := h.create(h.root, "f", 0o644), h.create(h.root, "private", 0o600)
	gone := h.create(h.root, "gone", 0o644)
	nfs[nfs3.RemoveRes](h.peer, nfs3.ProcRemove, &nfs3.DirOpArgs{Dir: h.root, Name: "gone"}, nfs3.OK)
	none := chunks.Segment{Handle: 0xdead00, Length: 100_000}
	root := h.cred
	for _, tt := range []struct {
		name string
		cred xdr.Auth
		fh   nfs3.FileHandle
		off  uint64
		size uint32
		want nfs3.Status
	}{
		{"stale handle", root, gone, 0, 100_000, nfs3.ErrStale},
		{"bad handle", root, nfs3.FileHandle("?"), 0, 100_000, nfs3.ErrBadHandle},
		{"no permission", sys(1000, 1000), private, 0, 100_000, nfs3.ErrAcces},
		{"a directory", root, h.root, 0, 100_000, nfs3.ErrInval},
		{"too far", root, f, 1<<63 - 1, 100_000, nfs3.ErrFBig},
		{"no space", root, f, 0, 600_000, nfs3.ErrNoSpc},
	} {
		h.cred, none.Length = tt.cred, tt.size
		if got := h.lazyWrite(tt.fh, tt.off, none); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	h.cred = root
	h.serve(server.Export{Path: "/export", FS: fsys, Squash: server.SquashNone, ReadOnly: true})
	if got := h.lazyWrite(f, 8, none); got != nfs3.ErrROFS {
		t.Errorf("read-only: %v", got)
	}
	h.serve(server.Export{Path: "/export", FS: fsys, Squash: server.SquashNone})
	if n := h.conn.Stats().ReadsIn; n != 0 {
		t.Errorf("%d RDMA Reads", n)
	}
	data := bytes.Repeat([]byte("stag!"), 20_000)
	for _, off := range []uint64{0, 1, 16384, 50_001} {
		if got := h.lazyWrite(f, off, h.offer(data, region.RemoteRead)); got != nfs3.OK {
			t.Errorf("at %d: %v", off, got)
		}
		if r := h.read(f, off, 100_000); !bytes.Equal(r.Data, data) {
			t.Errorf("at %d: %d octets, other ones", off, len(r.Data))
		}
	}
	if h.conn.Stats().ReadsIn == 0 {
		t.Error("no RDMA Read was counted")
	}
}
