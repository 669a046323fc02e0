package judge_test

import (
	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// handle is the file of all calls.
var handle = nfs3.FileHandle{1, 2, 3, 4, 5, 6, 7, 8}

// NFS returns an NFSv3 call and its reply, both inline.
func (t *RPC) NFS(proc nfs3.Proc, args, results xdr.Message) *Exchange {
	return t.Exchange(nfs3.Program, nfs3.Version, uint32(proc), xdr.Encode(nil, args), xdr.Encode(nil, results))
}

// Null returns a NULL.
func (t *RPC) Null() *Exchange { return t.NFS(nfs3.ProcNull, &nfs3.Void{}, &nfs3.Void{}) }

// GetAttr returns a GETATTR.
func (t *RPC) GetAttr() *Exchange {
	return t.NFS(nfs3.ProcGetAttr, &nfs3.HandleArgs{Handle: handle}, &nfs3.GetAttrRes{Attr: Attr(10)})
}

// Attr returns the attributes of a file of n octets.
func Attr(size uint64) nfs3.Attr {
	return nfs3.Attr{Type: nfs3.TypeReg, Mode: 0o644, Nlink: 1, Size: size}
}

// HandleArgs returns the handle of the file of all calls.
func HandleArgs() *nfs3.HandleArgs { return &nfs3.HandleArgs{Handle: handle} }

// ReadArgs returns the arguments of a READ of n octets.
func ReadArgs(n int) *nfs3.ReadArgs { return &nfs3.ReadArgs{Handle: handle, Count: uint32(n)} }

// WriteArgs returns the arguments of a WRITE of n octets.
func WriteArgs(n int) *nfs3.WriteArgs {
	return &nfs3.WriteArgs{Handle: handle, Count: uint32(n), Stable: nfs3.DataSync, Data: make([]byte, n)}
}

// ReadDirArgs returns the arguments of a READDIR from the beginning.
func ReadDirArgs(n int) *nfs3.ReadDirArgs { return &nfs3.ReadDirArgs{Dir: handle, Count: uint32(n)} }

// DirOp returns a name in a directory.
func DirOp(name string) *nfs3.DirOpArgs { return &nfs3.DirOpArgs{Dir: handle, Name: name} }

// ReadRes returns the results of a READ of n octets up to the end of the file.
func ReadRes(n int) *nfs3.ReadRes {
	return &nfs3.ReadRes{Attr: nfs3.OptAttr{Present: true, Attr: Attr(uint64(n))}, Count: uint32(n), EOF: true, Data: make([]byte, n)}
}

// WriteRes returns the results of a WRITE of n octets.
func WriteRes(n int) *nfs3.WriteRes {
	return &nfs3.WriteRes{Count: uint32(n), Committed: nfs3.DataSync, Verf: nfs3.WriteVerf{1}}
}

// ReadFile returns a READ of n octets, whose data go into a Write chunk of two segments.
func (t *RPC) ReadFile(n int) *Exchange {
	x := t.NFS(nfs3.ProcRead, ReadArgs(n), ReadRes(n))
	offered := chunks.WriteChunk{t.NewSegment(n - n/3), t.NewSegment(n / 3)}
	t.Sink(x, offered, n)
	return x
}

// Sink moves the data at the end of the reply, n octets and their pad, into a Write chunk.
func (t *RPC) Sink(x *Exchange, offered chunks.WriteChunk, n int) {
	var used chunks.WriteChunk
	used, x.Writes = Fill(offered, make([]byte, n))
	x.Call.Header.Write = []chunks.WriteChunk{offered}
	x.Reply.Header.Write = []chunks.WriteChunk{used}
	x.Reply.Body = x.Reply.Body[:len(x.Reply.Body)-(n+3)&^3]
}

// WriteFile returns a WRITE of n octets, whose data are in a Read chunk of two segments.
func (t *RPC) WriteFile(n int) *Exchange {
	return t.Reduce(t.NFS(nfs3.ProcWrite, WriteArgs(n), WriteRes(n)), n)
}

// Reduce takes the last n octets, and their pad, out of a call.
func (t *RPC) Reduce(x *Exchange, n int) *Exchange {
	at := len(x.Call.Body) - (n+3)&^3
	x.Call.Body = x.Call.Body[:at]
	for _, s := range []chunks.Segment{t.NewSegment(n - n/3), t.NewSegment(n / 3)} {
		x.Call.Header.Read = append(x.Call.Header.Read, chunks.ReadSegment{Position: uint32(at), Segment: s})
		x.Pulls = append(x.Pulls, Pull(s))
	}
	return x
}

// Long makes the call of an exchange a long call: all of it is in a Position Zero chunk.
func (t *RPC) Long(x *Exchange) *Exchange {
	s := t.NewSegment(len(x.Call.Body))
	x.Call.Header.Type, x.Call.Header.Read = rpcrdma.MsgTypeNoMsg, []chunks.ReadSegment{{Segment: s}}
	x.Data, x.Call.Body = x.Call.Body, nil
	x.Pulls = append(x.Pulls, Pull(s))
	return x
}

// ReadDir returns a READDIR whose reply is inline, although there is a Reply chunk of three segments.
func (t *RPC) ReadDir() *Exchange {
	x := t.NFS(nfs3.ProcReadDir, ReadDirArgs(8192), &nfs3.ReadDirRes{Entries: []nfs3.DirEntry{{FileID: 5, Name: "a", Cookie: 7}}, EOF: true})
	offered := chunks.WriteChunk{t.NewSegment(128), t.NewSegment(8192), t.NewSegment(4)}
	h := &x.Call.Header
	h.Reply, h.HasReply = offered, true
	x.Reply.Header.Reply, _ = Fill(offered, nil)
	x.Reply.Header.HasReply = true
	return x
}

// LongReply puts the reply of an exchange with a Reply chunk into it.
func (x *Exchange) LongReply() *Exchange {
	x.Reply.Header.Type = rpcrdma.MsgTypeNoMsg
	x.Reply.Header.Reply, x.Writes = Fill(x.Call.Header.Reply, x.Reply.Body)
	x.Reply.Body = nil
	return x
}
