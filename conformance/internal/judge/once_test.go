package judge_test

import (
	"slices"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/judge/internal/twin"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// TestOnce: mistakes that show again later are one violation.
func TestOnce(t *testing.T) {
	mkdir := func(t *twin.RPC, dir nfs3.FileType) {
		h := twin.HandleArgs().Handle
		a := twin.Attr(10)
		a.Type = dir
		t.Do(t.NFS(nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: nfs3.DirOpArgs{Dir: h, Name: "d"}},
			&nfs3.NewRes{DirWcc: nfs3.Wcc{After: nfs3.OptAttr{Present: true, Attr: a}}}))
	}
	write := func(t *twin.RPC, verf byte) {
		r := twin.WriteRes(100)
		r.Verf[7] = verf
		t.Do(t.NFS(nfs3.ProcWrite, twin.WriteArgs(100), r))
	}
	lateWrite := func(t *twin.RPC, invalidate bool) {
		t.Do(t.Null())
		x := t.ReadFile(5001)
		last := x.Writes[len(x.Writes)-1]
		if invalidate {
			x.Reply.Invalidate = last.STag
		}
		x.Writes = x.Writes[:len(x.Writes)-1]
		t.Do(x)
		t.Write(twin.R, last.STag, last.TO, last.Data)
		t.Do(t.Null())
	}
	for name, tt := range map[string]struct {
		talk func(*twin.RPC)
		want []string
	}{
		"a directory is a file once": {func(t *twin.RPC) {
			mkdir(t, nfs3.TypeDir)
			mkdir(t, nfs3.TypeReg)
			mkdir(t, nfs3.TypeDir)
		}, []string{"NFS-014"}},
		"a directory is a file, then another thing": {func(t *twin.RPC) {
			mkdir(t, nfs3.TypeDir)
			mkdir(t, nfs3.TypeReg)
			mkdir(t, nfs3.TypeLnk)
		}, []string{"NFS-014", "NFS-014"}},
		"another write verifier once": {func(t *twin.RPC) {
			for _, v := range []byte{1, 2, 1} {
				write(t, v)
			}
		}, []string{"NFS-013"}},
		"two calls with one XID, both answered": {func(t *twin.RPC) {
			t.Do(t.Null())
			a, b := t.Null(), t.Null()
			for _, m := range []*twin.Message{&b.Call, &b.Reply} {
				m.Header.XID = a.Call.Header.XID
				copy(m.Body, xdr.AppendUint32(nil, m.Header.XID))
			}
			t.Ask(a)
			t.Ask(b)
			t.Answer(a)
			t.Answer(b)
		}, []string{"RPCRDMA-082"}},
		"private data of version 2, whose R flag is unknown": {func(t *twin.RPC) {
			t.Begin()
			t.Frames[0].Startup.PrivateData[4] = 2
			t.Do(t.Null())
			x := t.ReadFile(100)
			x.Reply.Invalidate = x.Writes[0].STag
			t.Do(x)
		}, []string{"RPCRDMA-071"}},
		"an RDMA Write after the reply":                         {func(t *twin.RPC) { lateWrite(t, false) }, []string{"RPCRDMA-034"}},
		"an RDMA Write after a reply that invalidates its STag": {func(t *twin.RPC) { lateWrite(t, true) }, []string{"RPCRDMA-034"}},
		"WRITE of fewer octets than it has": {func(t *twin.RPC) {
			a := twin.WriteArgs(100)
			a.Count = 99
			t.Do(t.NFS(nfs3.ProcWrite, a, twin.WriteRes(100)))
		}, []string{"NFS-010"}},
		"the program is gone, for one call": {func(t *twin.RPC) {
			t.Do(t.GetAttr())
			x := t.GetAttr()
			accept(x, xdr.ReplyHeader{Accept: xdr.ProgUnavail})
			t.Do(x)
			t.Do(t.GetAttr())
		}, []string{"RPC-018"}},
	} {
		conv := twin.NewRPC()
		tt.talk(conv)
		var got []string
		for _, v := range judged(conv.Trace, new(twinOf)) {
			got = append(got, v.Rule.ID)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
