package server_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// TestWriteAfterCrash: a WRITE that was executed before the crash is not executed again after it, so that
// it does not overwrite what others have written since, and neither is it if its reply was recorded.
func TestWriteAfterCrash(t *testing.T) {
	for _, recorded := range []bool{false, true} {
		path := t.TempDir()
		a := begin(t, openDir(t, path), newImage(t))
		f := plant(a).f
		args := &nfs3.WriteArgs{Handle: f, Count: 4, Stable: nfs3.FileSync, Data: []byte("mine")}
		if _, status := a.send(1, nfs3.ProcWrite, args); status != nfs3.OK {
			t.Fatal(status)
		}
		image := a.c.after
		if recorded {
			image = a.c.sim.Snapshot().Durable()
		}
		b := begin(t, openDir(t, path), image)
		other := &nfs3.WriteArgs{Handle: f, Count: 5, Stable: nfs3.FileSync, Data: []byte("other")}
		if _, status := b.send(2, nfs3.ProcWrite, other); status != nfs3.OK {
			t.Fatal(status)
		}
		reply, status := b.send(1, nfs3.ProcWrite, args)
		if status != nfs3.OK {
			t.Fatal(status)
		}
		var res nfs3.WriteRes
		d := xdr.NewDecoder(reply[24:])
		if err := res.Parse(&d); err != nil || res.Count != 4 || res.Committed != nfs3.FileSync {
			t.Errorf("%+v, %v", res, err)
		}
		if got := b.read(f, 0, 100); string(got.Data) != "other" {
			t.Errorf("recorded %v: the file has %q", recorded, got.Data)
		}
		// The same XID, and other data or other groups: another call.
		for _, change := range []func(){
			func() { args.Data = []byte("next") },
			func() { b.cred = sys(0, 0, 5) },
		} {
			change()
			b.c.before = nil
			if _, status := b.send(1, nfs3.ProcWrite, args); status != nfs3.OK || b.c.before == nil {
				t.Errorf("%v, executed: %v", status, b.c.before != nil)
			}
		}
		if got := b.read(f, 0, 100); string(got.Data) != "nextr" {
			t.Errorf("the file has %q", got.Data)
		}
	}
}

// TestWriteParts: WRITEs to a file wait for each other only where they meet, and for all else that changes
// it. The intent has no data.
func TestWriteParts(t *testing.T) {
	l := begin(t, openDir(t, t.TempDir()), newImage(t))
	tr := plant(l)
	names := func(f nfs3.FileHandle, off uint64, n int) []string {
		data := make([]byte, n)
		req := l.request(nfs3.ProcWrite, &nfs3.WriteArgs{Handle: f, Offset: off, Count: uint32(n), Data: data})
		if keep := l.srv.Keep(req); len(keep) != len(req.Args)-4-n-xdr.Pad(n) || !strings.HasPrefix(string(req.Args), string(keep)) {
			t.Errorf("%d of %d octets are kept", len(keep), len(req.Args))
		}
		return l.srv.Names(req)
	}
	meet := func(a, b []string) bool {
		return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
	}
	all := l.srv.Names(l.request(nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Handle: tr.f}))

	one := names(tr.f, 0, partSize)
	for _, x := range []struct {
		f    nfs3.FileHandle
		off  uint64
		n    int
		want bool
	}{
		{tr.f, partSize - 1, 1, true},
		{tr.f, 0, 1, true},
		{tr.f, 2 * partSize, partSize, false},
		{tr.f, (fileParts - 1) * partSize, 1, false},
		{tr.g, 0, 1, false},
		{tr.f, 100 * partSize, fileParts * partSize, true},
	} {
		got := names(x.f, x.off, x.n)
		if meet(one, got) != x.want {
			t.Errorf("at %d: %q and %q", x.off, one, got)
		}
		if meet(all, got) != bytes.Equal(x.f, tr.f) {
			t.Errorf("SETATTR, at %d: %q", x.off, got)
		}
	}
}
