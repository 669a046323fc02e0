package server_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// TestOrder: refusals come in the order of RFC 5531 Section 9, each before the next is
// looked at.
func TestOrder(t *testing.T) {
	bad := []byte{0, 0, 0, 1}
	good := sys(0, 0)
	for _, c := range []struct {
		name             string
		cred             xdr.Auth
		prog, vers, proc uint32
		want             xdr.ReplyHeader
	}{
		{"bad credential, all else wrong too", xdr.Auth{Flavor: xdr.AuthSys, Body: []byte{1, 2, 3, 4}}, 1, 2, 3, xdr.ReplyHeader{Denied: true, Reject: xdr.AuthError, AuthStat: xdr.AuthBadCred}},
		{"AUTH_SHORT", xdr.Auth{Flavor: xdr.AuthShort}, nfs3.Program, 3, 0, xdr.ReplyHeader{Denied: true, Reject: xdr.AuthError, AuthStat: xdr.AuthRejectedCred}},
		{"AUTH_DH", xdr.Auth{Flavor: xdr.AuthDH}, nfs3.Program, 3, 0, xdr.ReplyHeader{Denied: true, Reject: xdr.AuthError, AuthStat: xdr.AuthBadCred}},
		{"RPCSEC_GSS", xdr.Auth{Flavor: xdr.RPCSECGSS}, nfs3.Program, 3, 0, xdr.ReplyHeader{Denied: true, Reject: xdr.AuthError, AuthStat: xdr.AuthBadCred}},
		{"unknown program", good, 1, 2, 3, xdr.ReplyHeader{Accept: xdr.ProgUnavail}},
		{"NFSACL version 2", good, nfs3.ACLProgram, 2, 1, xdr.ReplyHeader{Accept: xdr.ProgMismatch, Low: 3, High: 3}},
		{"SETACL with bad arguments", good, nfs3.ACLProgram, 3, 2, xdr.ReplyHeader{Accept: xdr.GarbageArgs}},
		{"NFS version 4", good, nfs3.Program, 4, 99, xdr.ReplyHeader{Accept: xdr.ProgMismatch, Low: 3, High: 3}},
		{"NFS version 2, NULL", good, nfs3.Program, 2, 0, xdr.ReplyHeader{Accept: xdr.ProgMismatch, Low: 3, High: 3}},
		{"MOUNT version 4", good, mount3.Program, 4, 1, xdr.ReplyHeader{Accept: xdr.ProgMismatch, Low: 1, High: 3}},
		{"NFS procedure 22", good, nfs3.Program, 3, 22, xdr.ReplyHeader{Accept: xdr.ProcUnavail}},
		{"MOUNT procedure 6", good, mount3.Program, 3, 6, xdr.ReplyHeader{Accept: xdr.ProcUnavail}},
		{"GETATTR with bad arguments", good, nfs3.Program, 3, 1, xdr.ReplyHeader{Accept: xdr.GarbageArgs}},
		{"MNT with bad arguments", good, mount3.Program, 3, 1, xdr.ReplyHeader{Accept: xdr.GarbageArgs}},
		{"UMNT with bad arguments", good, mount3.Program, 3, 3, xdr.ReplyHeader{Accept: xdr.GarbageArgs}},
		{"NFS NULL", good, nfs3.Program, 3, 0, xdr.ReplyHeader{}},
		{"NFS NULL without credential", xdr.Auth{}, nfs3.Program, 3, 0, xdr.ReplyHeader{}},
		{"MOUNT NULL", good, mount3.Program, 3, 0, xdr.ReplyHeader{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPeer(t, newServer(t, mem.New(nil)), sys(0, 0)).as(c.cred)
			h, body := p.raw(c.prog, c.vers, c.proc, bad)
			h.XID = 0
			h.Verf = xdr.Auth{}
			if got, want := h.Err(), c.want.Err(); (got == nil) != (want == nil) || got != nil && got.Error() != want.Error() {
				t.Errorf("got %v, want %v", got, want)
			}
			if len(body) != 0 {
				t.Errorf("%d octets of results", len(body))
			}
		})
	}
}

// TestGarbage: every truncation of every procedure's arguments is GARBAGE_ARGS, and octets
// behind them do not matter.
func TestGarbage(t *testing.T) {
	p := newPeer(t, newServer(t, mem.New(nil)), sys(0, 0))
	where := at(p.root, "name")
	for proc, args := range map[nfs3.Proc]xdr.Message{
		nfs3.ProcGetAttr: &nfs3.GetAttrArgs{Handle: p.root}, nfs3.ProcSetAttr: &nfs3.SetAttrArgs{Handle: p.root},
		nfs3.ProcLookup: &where, nfs3.ProcAccess: &nfs3.AccessArgs{Handle: p.root},
		nfs3.ProcReadLink: &nfs3.HandleArgs{Handle: p.root}, nfs3.ProcRead: &nfs3.ReadArgs{Handle: p.root},
		nfs3.ProcWrite: &nfs3.WriteArgs{Handle: p.root}, nfs3.ProcCreate: &nfs3.CreateArgs{Where: where, Mode: nfs3.Exclusive},
		nfs3.ProcMkdir: &nfs3.MkdirArgs{Where: where}, nfs3.ProcSymlink: &nfs3.SymlinkArgs{Where: where, Path: "x"},
		nfs3.ProcMknod: &nfs3.MknodArgs{Where: where, Type: nfs3.TypeFIFO}, nfs3.ProcRemove: &where,
		nfs3.ProcRmdir: &where, nfs3.ProcRename: &nfs3.RenameArgs{From: where, To: where},
		nfs3.ProcLink: &nfs3.LinkArgs{Handle: p.root, Link: where}, nfs3.ProcReadDir: &nfs3.ReadDirArgs{Dir: p.root},
		nfs3.ProcReadDirPlus: &nfs3.ReadDirPlusArgs{Dir: p.root}, nfs3.ProcFSStat: &nfs3.HandleArgs{Handle: p.root},
		nfs3.ProcFSInfo: &nfs3.HandleArgs{Handle: p.root}, nfs3.ProcPathConf: &nfs3.HandleArgs{Handle: p.root},
		nfs3.ProcCommit: &nfs3.CommitArgs{Handle: p.root},
	} {
		b := xdr.Encode(nil, args)
		for n := range len(b) {
			if h, body := p.raw(nfs3.Program, 3, uint32(proc), b[:n]); h.Accept != xdr.GarbageArgs || len(body) > 0 {
				t.Errorf("%v, %d of %d octets: %v", proc, n, len(b), h.Accept)
			}
		}
		h, body := p.raw(nfs3.Program, 3, uint32(proc), append(b, "more"...))
		if h.Err() != nil {
			t.Errorf("%v with octets after: %v", proc, h.Err())
		}
		d := xdr.NewDecoder(body)
		if err := xdr.Decode(&d, proc.NewRes()).Err(); err != nil || d.Len() != 0 {
			t.Errorf("%v: results: %v", proc, err)
		}
	}
}

func TestRequireSys(t *testing.T) {
	s := newServer(t, mem.New(nil), func(c *server.Config) { c.RequireSys = true })
	p := newPeer(t, s, xdr.Auth{})
	h, _ := p.raw(nfs3.Program, 3, uint32(nfs3.ProcGetAttr), xdr.Encode(nil, &nfs3.HandleArgs{Handle: p.root}))
	if !h.Denied || h.AuthStat != xdr.AuthTooWeak {
		t.Errorf("GETATTR without identity: %v", h.Err())
	}
	nfs[nfs3.FSInfoRes](p, nfs3.ProcFSInfo, &nfs3.HandleArgs{Handle: p.root}, nfs3.OK)
	p.as(sys(1, 1)).attr(p.root)
}

// describe is what a server says about a call without arguments.
func describe(s *server.Server, prog, vers, proc uint32) rpc.Traits {
	return s.Describe(&rpc.Request{CallHeader: xdr.CallHeader{Prog: prog, Vers: vers, Proc: proc}})
}

// TestMayBlock: which calls may block, and which change something, so that they must run once.
func TestMayBlock(t *testing.T) {
	onMem, onDir := newServer(t, mem.New(nil)), newServer(t, newDir(t, nil))
	once := []nfs3.Proc{
		nfs3.ProcSetAttr, nfs3.ProcWrite, nfs3.ProcCreate, nfs3.ProcMkdir, nfs3.ProcSymlink, nfs3.ProcMknod,
		nfs3.ProcRemove, nfs3.ProcRmdir, nfs3.ProcRename, nfs3.ProcLink,
	}
	for proc := range uint32(nfs3.ProcCount + 1) {
		if describe(onMem, nfs3.Program, 3, proc).Once != slices.Contains(once, nfs3.Proc(proc)) || describe(onMem, nfs3.Program, 2, proc).Once {
			t.Errorf("%v: must it run once?", nfs3.Proc(proc))
		}
		if describe(onMem, nfs3.Program, 3, proc).Lazy != (nfs3.Proc(proc) == nfs3.ProcWrite) {
			t.Errorf("%v: does it take its data itself?", nfs3.Proc(proc))
		}
		if describe(onMem, nfs3.Program, 3, proc).Blocks {
			t.Errorf("%v blocks although the files are in memory", nfs3.Proc(proc))
		}
	}
	for proc, want := range map[nfs3.Proc]bool{
		nfs3.ProcNull: false, nfs3.ProcGetAttr: false, nfs3.ProcLookup: false, nfs3.ProcAccess: false,
		nfs3.ProcRead: true, nfs3.ProcWrite: true, nfs3.ProcCommit: true, nfs3.ProcReadDir: true,
		nfs3.ProcRename: true, nfs3.ProcSetAttr: true, nfs3.ProcCreate: true, nfs3.ProcCount: false,
	} {
		if got := describe(onDir, nfs3.Program, 3, uint32(proc)).Blocks; got != want {
			t.Errorf("%v: %v", proc, got)
		}
	}
	if describe(onDir, 1, 1, 1).Blocks || !describe(onDir, mount3.Program, 3, 1).Blocks {
		t.Error("other programs")
	}
}

// TestMuxProgram: a third program in addition to NFS and MOUNT.
func TestMuxProgram(t *testing.T) {
	s := newServer(t, mem.New(nil))
	s.Add(server.Program{Prog: 200000, Low: 1, High: 2, Procs: 3, Serve: func(_ context.Context, c *server.Call) error {
		if c.Proc == 2 {
			c.Resp.Results = append(c.Resp.Results, 1, 2, 3, 4)
			return errors.New("garbage")
		}
		c.Resp.Results = xdr.AppendUint32(c.Resp.Results, c.Cred.UID)
		return nil
	}})
	p := newPeer(t, s, sys(77, 0))
	if h, body := p.raw(200000, 2, 1, nil); h.Err() != nil || len(body) != 4 || body[3] != 77 {
		t.Errorf("%v, %x", h.Err(), body)
	}
	if h, body := p.raw(200000, 2, 2, nil); h.Accept != xdr.GarbageArgs || len(body) != 0 {
		t.Errorf("%v, %x", h.Err(), body)
	}
	if h, _ := p.raw(200000, 3, 1, nil); h.Accept != xdr.ProgMismatch || h.Low != 1 || h.High != 2 {
		t.Errorf("%+v", h)
	}
}

var _ rpc.Handler = (*server.Server)(nil)
