package judge_test

import (
	"bytes"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/conformance/internal/judge/internal/twin"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// reply is a NULL with another answer.
func reply(h xdr.ReplyHeader) func(*twin.RPC) {
	return ask(func(x *twin.Exchange) { accept(x, h) })
}

// nfs does one inline exchange of NFSv3.
func nfs(proc nfs3.Proc, args, results xdr.Message) func(*twin.RPC) {
	return func(t *twin.RPC) {
		t.Do(t.Null())
		t.Do(t.NFS(proc, args, results))
	}
}

// sys is a valid AUTH_SYS.
var sys = xdr.SysCred{MachineName: "host1", UID: 1, GID: 2, GIDs: []uint32{3}}

var rpcTwins = map[string]func(*twin.RPC){
	"RPC-001": badHeader(null, func(m *twin.Message) { m.Body[7] = 2 }),
	"RPC-002": ask(func(x *twin.Exchange) {
		x.Call.Body[11] = 3
		accept(x, xdr.ReplyHeader{Denied: true, Reject: xdr.RPCMismatch, Low: 2, High: 2})
	}),
	"RPC-003": badHeader(null, func(m *twin.Message) {
		m.Body = append(m.Body[:28], append([]byte{0, 0, 1, 0x94}, make([]byte, 500)...)...)
	}),
	"RPC-004": badHeader(null, func(m *twin.Message) { m.Body = m.Body[:36] }),
	"RPC-005": ask(func(x *twin.Exchange) { x.Reply.Body[23] = 9 }),
	"RPC-006": ask(func(x *twin.Exchange) { x.Reply.Body = x.Reply.Body[:20] }),
	"RPC-007": ask(func(x *twin.Exchange) { auth(x, xdr.Auth{Body: make([]byte, 4)}, xdr.Auth{}) }),
	"RPC-008": ask(func(x *twin.Exchange) {
		many := sys
		body := append(many.Append(nil), 0, 0, 0, 1)
		auth(x, xdr.Auth{Flavor: xdr.AuthSys, Body: body}, xdr.Auth{})
		accept(x, xdr.ReplyHeader{Denied: true, Reject: xdr.AuthError, AuthStat: xdr.AuthBadCred})
	}),
	"RPC-009": ask(func(x *twin.Exchange) { auth(x, sys.Auth(), xdr.Auth{Flavor: xdr.AuthShort, Body: make([]byte, 4)}) }),
	"RPC-010": reply(xdr.ReplyHeader{Accept: xdr.ProgMismatch, Low: 2, High: 4}),
	"RPC-011": ask(func(x *twin.Exchange) { x.Call.Body[11] = 3 }),
	"RPC-012": ask(func(x *twin.Exchange) { x.Reply.Body = append(x.Reply.Body, 0, 0, 0, 0) }),
	"RPC-013": change((*twin.RPC).GetAttr, func(x *twin.Exchange) { x.Call.Body = append(x.Call.Body, 0, 0, 0, 0) }),
	"RPC-014": func(t *twin.RPC) {
		x := t.NFS(nfs3.ProcLookup, twin.DirOp("abc"), &nfs3.LookupRes{Status: nfs3.ErrNoEnt})
		x.Call.Body[len(x.Call.Body)-1] = 1
		t.Do(x)
	},
	"RPC-016": change((*twin.RPC).GetAttr, refuseArgs),
	"RPC-017": ask(func(x *twin.Exchange) { accept(x, xdr.ReplyHeader{Verf: sys.Auth()}) }),
	"RPC-018": func(t *twin.RPC) {
		t.Do(t.GetAttr())
		x := t.GetAttr()
		accept(x, xdr.ReplyHeader{Accept: xdr.ProcUnavail})
		t.Do(x)
	},
	"RPC-019": func(t *twin.RPC) {
		t.Do(t.Null())
		t.Do(t.Exchange(nfs3.Program, 3, 22, nil, nil))
	},
	"RPC-015": reply(xdr.ReplyHeader{Denied: true, Reject: xdr.AuthError}),
}

var rpcBases = map[string]func(*twin.RPC){
	"RPC-011": rpcTwins["RPC-002"],
	"NFS-003": nfsTwins["NFS-001"],
}

// badArgs is a GETATTR with a handle of 65 octets.
func badArgs(t *twin.RPC) *twin.Exchange {
	x := t.GetAttr()
	x.Call.Body = xdr.AppendOpaque(x.Call.Body[:40], make([]byte, 65))
	return x
}

var nfsTwins = map[string]func(*twin.RPC){
	"NFS-001": change(badArgs, refuseArgs),
	"NFS-002": change((*twin.RPC).GetAttr, func(x *twin.Exchange) { x.Reply.Body = x.Reply.Body[:len(x.Reply.Body)-4] }),
	"NFS-003": change(badArgs, func(*twin.Exchange) {}),
	"NFS-004": nfs(nfs3.ProcGetAttr, twin.HandleArgs(), &nfs3.GetAttrRes{Status: 99}),
	"NFS-005": nfs(nfs3.ProcGetAttr, twin.HandleArgs(), &nfs3.GetAttrRes{Status: nfs3.ErrExist}),

	"NFS-014": func(t *twin.RPC) {
		t.Do(t.Null())
		t.Do(t.GetAttr())
		a := twin.Attr(10)
		a.FileID = 7
		t.Do(t.NFS(nfs3.ProcGetAttr, twin.HandleArgs(), &nfs3.GetAttrRes{Attr: a}))
	},
	"NFS-047": func(t *twin.RPC) {
		t.Do(t.Null())
		a := twin.Attr(10)
		a.Mode |= 0o100000 // S_IFREG
		t.Do(t.NFS(nfs3.ProcGetAttr, twin.HandleArgs(), &nfs3.GetAttrRes{Attr: a}))
	},
	"NFS-010": func(t *twin.RPC) {
		a := twin.WriteArgs(100)
		a.Count = 96
		t.Do(t.NFS(nfs3.ProcWrite, a, &nfs3.WriteRes{Status: nfs3.ErrInval}))
	},
	"NFS-011": nfs(nfs3.ProcWrite, twin.WriteArgs(100), twin.WriteRes(101)),
	"NFS-012": func(t *twin.RPC) {
		r := twin.WriteRes(100)
		r.Committed = nfs3.Unstable
		t.Do(t.NFS(nfs3.ProcWrite, twin.WriteArgs(100), r))
	},
	"NFS-013": func(t *twin.RPC) {
		r := twin.WriteRes(100)
		t.Do(t.NFS(nfs3.ProcWrite, twin.WriteArgs(100), r))
		r.Verf[7]++
		t.Do(t.NFS(nfs3.ProcWrite, twin.WriteArgs(100), r))
	},

	"NFS-020": readWith(func(r *nfs3.ReadRes) { r.Count -= 4; r.Attr.Present = false }),
	"NFS-021": readWith(func(r *nfs3.ReadRes) { r.Count = 104; r.Data = make([]byte, 104); r.Attr.Attr.Size = 104 }),
	"NFS-022": readWith(func(r *nfs3.ReadRes) { r.EOF = false }),

	"NFS-030": nfs(nfs3.ProcReadDir, twin.ReadDirArgs(200), &nfs3.ReadDirRes{Entries: entries(10), EOF: true}),
	"NFS-031": func(t *twin.RPC) {
		a := twin.ReadDirArgs(2000)
		a.Verf[0] = 1
		t.Do(t.NFS(nfs3.ProcReadDir, a, &nfs3.ReadDirRes{EOF: true}))
	},
	"NFS-032": nfs(nfs3.ProcReadDir, twin.ReadDirArgs(2000), &nfs3.ReadDirRes{Entries: []nfs3.DirEntry{{FileID: 1, Name: "a/b", Cookie: 2}}, EOF: true}),

	"NFS-040": nfs(nfs3.ProcAccess, &nfs3.AccessArgs{Handle: twin.HandleArgs().Handle, Access: 1}, &nfs3.AccessRes{Access: 3}),
	"NFS-041": nfs(nfs3.ProcAccess, &nfs3.AccessArgs{Handle: twin.HandleArgs().Handle, Access: 0x41}, &nfs3.AccessRes{Access: 1}),
	"NFS-042": func(t *twin.RPC) {
		a := twin.Attr(10)
		a.Mtime.Nsec = 1e9
		t.Do(t.NFS(nfs3.ProcGetAttr, twin.HandleArgs(), &nfs3.GetAttrRes{Attr: a}))
	},
	"NFS-043": nfs(nfs3.ProcLookup, twin.DirOp("a\x00b"), &nfs3.LookupRes{Status: nfs3.ErrNoEnt}),
	"NFS-045": nfs(nfs3.ProcFSInfo, twin.HandleArgs(), &nfs3.FSInfoRes{RTMax: 4096, RTPref: 8192}),
	"NFS-050": compound(0, "tag", 1, 24, 0),
	"NFS-051": compound(5, "tag", 2, 24, 0, 9, 0, 0, 0),
	"NFS-052": compound(0, "gat", 2, 24, 0, 9, 0, 0, 0),
	"NFS-046": func(t *twin.RPC) {
		t.Do(t.NFS(nfs3.ProcFSInfo, twin.HandleArgs(), &nfs3.FSInfoRes{RTMax: 50, WTMax: 4096}))
		t.Do(t.NFS(nfs3.ProcRead, twin.ReadArgs(100), twin.ReadRes(50)))
	},
}

// compound is a COMPOUND of PUTROOTFH and GETATTR (RFC 8881 Sections 18.21 and 18.7); f changes its results.
func compound(status uint32, tag string, results ...uint32) func(*twin.RPC) {
	return func(t *twin.RPC) {
		args := words(xdr.AppendString(nil, "tag"), 1, 2, 24, 9, 0)
		t.Do(t.Exchange(nfs3.Program, 4, 1, args, words(xdr.AppendString(xdr.AppendUint32(nil, status), tag), results...)))
	}
}

func words(b []byte, words ...uint32) []byte {
	for _, w := range words {
		b = xdr.AppendUint32(b, w)
	}
	return b
}

// readWith is an inline READ of 100 octets with another reply.
func readWith(f func(*nfs3.ReadRes)) func(*twin.RPC) {
	return func(t *twin.RPC) {
		r := twin.ReadRes(100)
		f(r)
		t.Do(t.NFS(nfs3.ProcRead, twin.ReadArgs(100), r))
	}
}

func entries(n int) (all []nfs3.DirEntry) {
	for i := range n {
		all = append(all, nfs3.DirEntry{FileID: uint64(i + 1), Name: string(bytes.Repeat([]byte("x"), i+1)), Cookie: uint64(i + 1)})
	}
	return all
}

// goodRPC has everything that the twins change, as it should be.
func goodRPC(t *twin.RPC) {
	t.Do(t.Null())
	for _, n := range []int{0, 1, 4, 5001} {
		x := t.ReadFile(n)
		x.Reply.Invalidate = 0
		t.Do(x)
		t.Do(t.WriteFile(n))
	}
	x := t.ReadFile(4000)
	x.Reply.Invalidate = x.Writes[0].STag
	t.Do(x)
	t.Do(t.ReadDir())
	t.Do(t.ReadDir().LongReply())
	t.Do(t.Long(t.GetAttr()))
	long := t.ReadDir().LongReply()
	t.Do(t.Long(long))
	failed := t.ReadFile(100) // NFS3ERR_IO: the Write chunk comes back unused
	failed.Reply.Body, failed.Writes = append(failed.Reply.Body[:24:24], 0, 0, 0, 5, 0, 0, 0, 0), nil
	failed.Reply.Header.Write = []chunks.WriteChunk{failed.Reply.Header.Write[0]}
	for i := range failed.Reply.Header.Write[0] {
		failed.Reply.Header.Write[0][i].Length = 0
	}
	t.Do(failed)
	several(t, func(*twin.Exchange) {}, 10)
	auths := t.GetAttr()
	auth(auths, sys.Auth(), xdr.Auth{})
	t.Do(auths)
	compound(0, "tag", 2, 24, 0, 9, 0, 0, 0)(t)
	compound(2, "tag", 1, 24, 2)(t)
	back := t.Exchange(0x40000000, 1, 0, nil, nil)
	back.Dir = twin.R
	t.Do(back)
	t.Close()
}

// goodOld speaks RFC 5666.
func goodOld(t *twin.RPC) {
	ccp(t)
	x, done := pulledReply(t)
	t.Do(x)
	r := twin.Pull(x.Reply.Header.Read[0].Segment)
	t.Read(twin.I, r)
	t.Do(done)
	p := t.Null()
	p.Call.Header.Type, p.Call.Header.Align, p.Call.Header.Thresh = 2, 8, 4000
	t.Do(p)
	t.Close()
}
