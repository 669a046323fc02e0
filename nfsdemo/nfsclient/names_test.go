package nfsclient_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend/backendtest"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// isStatus reports whether err is a refusal with a status.
func isStatus(err error, s nfs3.Status) bool {
	e, ok := errors.AsType[*nfsclient.StatusError](err)
	return ok && e.Status == s
}

// tree builds a server with directories, files and links.
func tree(t testing.TB) *fake {
	f := newFake(t)
	f.put("d", nfs3.TypeDir, nil)
	f.put("d/e", nfs3.TypeDir, nil)
	f.put("d/e/f", nfs3.TypeReg, []byte("hello"))
	f.put("rel", nfs3.TypeLnk, []byte("d/./e"))
	f.put("abs", nfs3.TypeLnk, []byte("/export/d/e/f"))
	f.put("up", nfs3.TypeLnk, []byte("d/../d/e/../e/f"))
	f.put("out", nfs3.TypeLnk, []byte("/etc/passwd"))
	f.put("above", nfs3.TypeLnk, []byte("../x"))
	f.put("loop", nfs3.TypeLnk, []byte("loop"))
	f.put("dangling", nfs3.TypeLnk, []byte("nowhere"))
	return f
}

func TestLookup(t *testing.T) {
	f := tree(t)
	c := f.client(t, nil)
	for _, tt := range []struct {
		path, want string
		err        error
	}{
		{"/export", "/export", nil},
		{"/export/", "/export", nil},
		{"/export/d/e/f", "/export/d/e/f", nil},
		{"/export/d/../d/e", "/export/d/e", nil},
		{"/export/rel/f", "/export/d/e/f", nil},
		{"/export/abs", "/export/d/e/f", nil},
		{"/export/up", "/export/d/e/f", nil},
		{"/export/out", "", nfsclient.ErrOutside},
		{"/export/above", "", nfsclient.ErrOutside},
		{"/export/loop", "", nfsclient.ErrTooManyLinks},
		{"/export/dangling", "", fs.ErrNotExist},
		{"/export/no/such", "", fs.ErrNotExist},
		{"/exporter", "", fs.ErrNotExist},
		{"/other", "", fs.ErrNotExist},
	} {
		t.Run(tt.path, func(t *testing.T) {
			n, err := c.Lookup(t.Context(), tt.path)
			if !errors.Is(err, tt.err) {
				t.Fatalf("got %v, want %v", err, tt.err)
			}
			if err == nil && n.Path != tt.want {
				t.Errorf("got %s, want %s", n.Path, tt.want)
			}
		})
	}
}

func TestLookupLink(t *testing.T) {
	f := tree(t)
	c := f.client(t, nil)
	n, err := c.LookupLink(t.Context(), "/export/loop")
	if err != nil || !n.IsSymlink() || n.Mode()&fs.ModeSymlink == 0 {
		t.Fatalf("got %+v, %v, want the link itself", n, err)
	}
	if target, err := c.ReadLink(t.Context(), n); target != "loop" || err != nil {
		t.Errorf("ReadLink = %q, %v", target, err)
	}
	dir, name, err := c.LookupParent(t.Context(), "/export/rel/new")
	if err != nil || dir.Path != "/export/d/e" || name != "new" {
		t.Errorf("LookupParent = %+v, %q, %v", dir, name, err)
	}
	if _, _, err := c.LookupParent(t.Context(), "/export"); err == nil {
		t.Error("the root has no parent")
	}
}

func TestBareReplies(t *testing.T) {
	f := tree(t)
	f.bare = true
	c := f.client(t, nil)
	n, err := c.Lookup(t.Context(), "/export/d/e/f")
	if err != nil || n.Size() != 5 {
		t.Fatalf("got %+v, %v, want attributes from GETATTR", n, err)
	}
	if n, err = c.Mkdir(t.Context(), c.Root(), "new", 0o755); err != nil || !n.IsDir() {
		t.Errorf("Mkdir = %+v, %v, want a handle from LOOKUP", n, err)
	}
	list, err := c.ReadDir(t.Context(), c.Root())
	if err != nil || len(list) != 9 {
		t.Errorf("ReadDir = %d names, %v, want 9", len(list), err)
	}
}

func TestReadDir(t *testing.T) {
	for _, noPlus := range []bool{false, true} {
		for _, page := range []int{1, 3, 1000} {
			t.Run(fmt.Sprintf("noplus=%v page=%d", noPlus, page), func(t *testing.T) {
				f := newFake(t)
				f.noPlus, f.page = noPlus, page
				for i := range 20 {
					f.put(fmt.Sprintf("f%02d", i), nfs3.TypeReg, make([]byte, i))
				}
				c := f.client(t, nil)
				list, err := c.ReadDir(t.Context(), c.Root())
				if err != nil || len(list) != 20 {
					t.Fatalf("%d names, %v", len(list), err)
				}
				for i, n := range list {
					if n.Name() != fmt.Sprintf("f%02d", i) || n.Size() != int64(i) || n.FH == nil {
						t.Errorf("entry %d is %+v", i, n)
					}
				}
				if noPlus && f.count(nfs3.ProcReadDirPlus) != 1 {
					t.Error("READDIRPLUS must be tried once")
				}
			})
		}
	}
}

func TestReadDirHostileNames(t *testing.T) {
	for _, name := range []string{"", "a/b", "/etc", "a\x00b"} {
		c := dialHostile(t, &backendtest.Liar{Page: func(uint64) ([]backendtest.Entry, bool) { return []backendtest.Entry{{Name: name, Cookie: 1}}, true }}, false, nil)
		if _, err := c.ReadDir(t.Context(), c.Root()); !errors.Is(err, nfsclient.ErrBadReply) {
			t.Errorf("name %q: got %v, want ErrBadReply", name, err)
		}
	}
}

func TestTree(t *testing.T) {
	f := tree(t)
	c := f.client(t, nil)
	ctx := t.Context()
	if n, err := c.MkdirAll(ctx, "/export/x/y/z", 0o755); err != nil || n.Path != "/export/x/y/z" {
		t.Fatalf("MkdirAll = %+v, %v", n, err)
	}
	if _, err := c.MkdirAll(ctx, "/export/x/y/z", 0o755); err != nil {
		t.Errorf("again: %v", err)
	}
	if _, err := c.MkdirAll(ctx, "/export/d/e/f", 0o755); !isStatus(err, nfs3.ErrNotDir) {
		t.Errorf("over a file: got %v, want NOTDIR", err)
	}
	if _, err := c.MkdirAll(ctx, "/elsewhere", 0o755); err == nil {
		t.Error("outside the export must fail")
	}
	if _, err := c.Symlink(ctx, c.Root(), "s", "x/y"); err != nil {
		t.Error(err)
	}
	if n, err := c.Lookup(ctx, "/export/s/z"); err != nil || n.Path != "/export/x/y/z" {
		t.Errorf("through the new link: %+v, %v", n, err)
	}
	d := must(c.Lookup(ctx, "/export/d"))(t)
	noErr(t, c.Rename(ctx, d, "e", c.Root(), "moved"))
	moved := must(c.Lookup(ctx, "/export/moved"))(t)
	if err := c.Rmdir(ctx, c.Root(), "moved"); !isStatus(err, nfs3.ErrNotEmpty) || !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, want NOTEMPTY", err)
	}
	if count, err := c.RemoveAll(ctx, c.Root(), moved); count != 2 || err != nil {
		t.Errorf("RemoveAll = %d, %v, want 2 names", count, err)
	}
	if count, err := c.RemoveAll(ctx, c.Root(), moved); count != 0 || err != nil {
		t.Errorf("RemoveAll of nothing = %d, %v", count, err)
	}
}

func TestAttach(t *testing.T) {
	for _, tt := range []struct {
		name          string
		exports, dirs []string
		path          string
		want          string
		err           string
	}{
		{"longest", []string{"/a", "/a/b", "/c"}, []string{"/a", "/a/b"}, "/a/b/c", "/a/b", ""},
		{"itself", []string{"/a"}, []string{"/a"}, "/a", "/a", ""},
		{"not a prefix by names", []string{"/a"}, []string{"/a"}, "/ab", "", "/ab is not exported; exported: /a"},
		{"root export", []string{"/"}, []string{"/"}, "/x/y", "/", ""},
		{"no list", nil, []string{"/a"}, "/a/b/c", "/a", ""},
		{"no list, any path", nil, []string{"/a/b", "/a", "/"}, "/a/b", "/", ""},
		{"no list, other roots above", nil, []string{"/other/b", "/other", "/"}, "/other/b", "/other", ""},
		{"empty list", []string{}, []string{"/a"}, "/a/b/c", "/a", ""},
		{"nothing fits", nil, []string{"/z"}, "/a/b", "", "cannot mount /a/b: no such export"},
		{"listed, but refused", []string{"/a"}, []string{"/z"}, "/a/b", "", "cannot mount /a: no such export"},
		{"too long", nil, []string{"/z"}, "/" + strings.Repeat("x", 1100), "", "name too long"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			export, fh, _, err := nfsclient.NewMounter(&mounts{exports: tt.exports, dirs: tt.dirs}, nfsclient.ProcessCred()).Attach(t.Context(), tt.path)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("got %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || export != tt.want || len(fh) == 0 {
				t.Errorf("got %q, %x, %v, want %q", export, fh, err, tt.want)
			}
		})
	}
}

// TestAttachCut: a reply to EXPORT that ends too early is not a list.
func TestAttachCut(t *testing.T) {
	m := nfsclient.NewMounter(&mounts{cut: true, dirs: []string{"/a"}}, nfsclient.ProcessCred())
	if export, _, exports, err := m.Attach(t.Context(), "/a/b"); export != "/a" || exports != nil || err != nil {
		t.Error(export, exports, err)
	}
}

// mounts is a rpc.Caller that answers MOUNT.
type mounts struct {
	rpc.Caller
	exports []string // nil: EXPORT is refused
	cut     bool     // its answer ends too early
	dirs    []string // what can be mounted
}

func (m *mounts) Do(_ context.Context, call *rpc.Call, reply *rpc.Reply) error {
	switch mount3.Proc(call.Proc) {
	case mount3.ProcExport:
		if m.cut {
			return &rpc.RPCError{Reason: rpc.ReasonBadReply}
		}
		if m.exports == nil {
			reply.Header.Accept = xdr.ProcUnavail
			return nil
		}
		var res mount3.ExportRes
		for _, e := range m.exports {
			res.Exports = append(res.Exports, mount3.Export{Dir: e})
		}
		reply.Results = xdr.Encode(nil, &res)
	case mount3.ProcMnt:
		var args mount3.PathArgs
		d := xdr.NewDecoder(call.Args)
		if err := xdr.Decode(&d, &args).Err(); err != nil {
			return err
		}
		res := mount3.MountRes{Status: mount3.ErrNoEnt}
		if slices.Contains(m.dirs, args.Path) {
			res = mount3.MountRes{Handle: []byte("root"), Flavors: []xdr.AuthFlavor{xdr.AuthSys}}
			if strings.HasPrefix(args.Path, "/other") {
				res.Handle = []byte("another")
			}
		}
		reply.Results = xdr.Encode(nil, &res)
	}
	return nil
}
