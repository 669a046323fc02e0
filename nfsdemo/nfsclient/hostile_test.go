package nfsclient_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/xdr"
)

// hostile is a server whose directories are what page returns for a cookie: one entry per name, with the
// cookies, all of them directories.
type hostile struct {
	plus bool
	eof  bool
	page func(cookie uint64) []nfs3.DirEntry
}

func (h *hostile) ServeRPC(_ context.Context, req *transport.Request, resp *transport.Response) {
	d := xdr.NewDecoder(req.Args)
	attr := nfs3.Attr{Type: nfs3.TypeDir, Nlink: 2}
	var res nfs3.Message
	switch nfs3.Proc(req.Proc) {
	case nfs3.ProcNull:
		return
	case nfs3.ProcFSInfo:
		res = &nfs3.FSInfoRes{RTMax: 4096, WTMax: 4096, DTPref: 4096}
	case nfs3.ProcGetAttr:
		res = &nfs3.GetAttrRes{Attr: attr}
	case nfs3.ProcLookup:
		res = &nfs3.LookupRes{Handle: []byte{1}, Attr: nfs3.SomeAttr(&attr)}
	case nfs3.ProcReadDir:
		var a nfs3.ReadDirArgs
		_ = a.Parse(&d) // the client under test sends valid ones
		res = &nfs3.ReadDirRes{Entries: h.page(a.Cookie), EOF: h.eof}
	case nfs3.ProcReadDirPlus:
		var a nfs3.ReadDirPlusArgs
		_ = a.Parse(&d)
		r := &nfs3.ReadDirPlusRes{EOF: h.eof}
		if !h.plus {
			r.Status = nfs3.ErrNotSupp
		} else {
			for _, e := range h.page(a.Cookie) {
				r.Entries = append(r.Entries, nfs3.DirPlusEntry{DirEntry: e, Attr: nfs3.SomeAttr(&attr), Handle: nfs3.SomeHandle([]byte{1})})
			}
		}
		res = r
	default:
		resp.Stat = xdr.ProcUnavail
		return
	}
	resp.Results = res.Append(resp.Results)
}

// dialHostile returns a client of h over record-marked TCP.
func dialHostile(t *testing.T, h *hostile) *nfsclient.Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &transport.Server{Handler: h}
	served := make(chan error, 1)
	go func() { served <- s.ServeStream(l) }()
	caller, err := transport.DialStream(t.Context(), "tcp", l.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { caller.Close(); s.Close(); <-served })
	c, err := nfsclient.New(t.Context(), caller, []byte{1}, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestHostileDirectories: no directory of a server keeps a client listing forever.
func TestHostileDirectories(t *testing.T) {
	one := func(name string, cookie uint64) []nfs3.DirEntry {
		return []nfs3.DirEntry{{FileID: 1, Name: name, Cookie: cookie}}
	}
	for _, x := range []struct {
		name string
		page func(cookie uint64) []nfs3.DirEntry
		want error
	}{
		{"two cookies in turn", func(c uint64) []nfs3.DirEntry { return one("a", 1+c%2) }, nfsclient.ErrDirLoop},
		{"back to an early one", func(c uint64) []nfs3.DirEntry {
			if c == 40 {
				return one("a", 17)
			}
			return one("a", c+1)
		}, nfsclient.ErrDirLoop},
		{"endless", func(c uint64) []nfs3.DirEntry {
			all := make([]nfs3.DirEntry, 1000)
			for i := range all {
				all[i] = nfs3.DirEntry{FileID: 1, Name: ".", Cookie: c + 1 + uint64(i)} // costs the client nothing
			}
			return all
		}, nfsclient.ErrDirEndless},
		{"nothing", func(uint64) []nfs3.DirEntry { return nil }, nfsclient.ErrNoProgress},
	} {
		for _, plus := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s plus=%v", x.name, plus), func(t *testing.T) {
				c := dialHostile(t, &hostile{plus: plus, page: x.page})
				if _, err := c.ReadDir(t.Context(), c.Root()); !errors.Is(err, x.want) {
					t.Errorf("ReadDir: %v, want %v", err, x.want)
				}
				if _, err := c.RemoveAll(t.Context(), c.Root(), c.Root()); !errors.Is(err, x.want) {
					t.Errorf("RemoveAll: %v, want %v", err, x.want)
				}
			})
		}
	}
}

// TestHostileNesting: directories that contain themselves end a recursion.
func TestHostileNesting(t *testing.T) {
	c := dialHostile(t, &hostile{plus: true, eof: true, page: func(uint64) []nfs3.DirEntry {
		return []nfs3.DirEntry{{FileID: 1, Name: "deep", Cookie: 1}}
	}})
	if n, err := c.RemoveAll(t.Context(), c.Root(), c.Root()); n != 0 || !errors.Is(err, nfsclient.ErrDirEndless) {
		t.Errorf("%d removed: %v", n, err)
	}
}
