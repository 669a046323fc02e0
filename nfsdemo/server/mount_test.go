package server_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// mnt is MNT with a status.
func (p *peer) mnt(path string, want mount3.Status) mount3.MountRes {
	p.Helper()
	var res mount3.MountRes
	p.rpc(mount3.Program, 3, uint32(mount3.ProcMnt), &mount3.PathArgs{Path: path}, &res)
	if res.Status != want {
		p.Errorf("MNT %q: got %v, want %v", path, res.Status, want)
	}
	return res
}

func TestMount(t *testing.T) {
	onBoth(t, func(p *peer) {
		sub := p.mkdir(p.mkdir(p.root, "a", 0o755), "b", 0o755)
		p.create(p.root, "file", 0o644)
		link := nfs3.SymlinkArgs{Where: at(p.root, "link"), Path: "a"}
		nfs[nfs3.SymlinkRes](p, nfs3.ProcSymlink, &link, nfs3.OK)

		res := p.mnt("/export", mount3.OK)
		if !slices.Equal(res.Flavors, []xdr.AuthFlavor{xdr.AuthSys, xdr.AuthNone}) || string(res.Handle) != string(p.root) {
			p.Errorf("%+v", res)
		}
		for _, same := range []string{"/export/", "//export", "/export/.", "/x/../export"} {
			if r := p.mnt(same, mount3.OK); string(r.Handle) != string(p.root) {
				p.Errorf("%q is another directory", same)
			}
		}
		if r := p.mnt("/export/a/b", mount3.OK); string(r.Handle) != string(sub) {
			p.Error("a directory below the export")
		}
		p.mnt("/export/a/x", mount3.ErrNoEnt)
		p.mnt("/export/file", mount3.ErrNotDir)
		p.mnt("/export/link", mount3.ErrNotDir)
		p.mnt("/export/link/b", mount3.ErrNotDir)
		p.mnt("/exports", mount3.ErrNoEnt)
		p.mnt("/", mount3.ErrNoEnt)
		p.mnt("", mount3.ErrNoEnt)
		p.mnt("export", mount3.ErrNoEnt)
		p.mnt("/export/../export/../etc", mount3.ErrNoEnt)
		p.mnt("/export/"+strings.Repeat("n", 256), mount3.ErrNameTooLong)
	})
}

func TestMountLists(t *testing.T) {
	s, err := server.New(&server.Config{Exports: []server.Export{
		{Path: "/a", FS: mem.New(nil), Clients: only("192.0.2.0/24")},
		{Path: "/a/deeper", FS: mem.New(nil)},
		{Path: "/closed", FS: mem.New(nil), Clients: only("2001:db8::/32")},
	}})
	noErr(t, err)
	p := &peer{T: t, srv: s, cred: sys(0, 0), addr: testAddr}
	a, deep := p.mnt("/a", mount3.OK), p.mnt("/a/deeper", mount3.OK)
	if string(a.Handle[:4]) == string(deep.Handle[:4]) {
		t.Error("two exports, one number")
	}
	p.mnt("/closed", mount3.ErrAcces)

	var exports mount3.ExportRes
	p.rpc(mount3.Program, 3, uint32(mount3.ProcExport), &nfs3.Void{}, &exports)
	if len(exports.Exports) != 3 || exports.Exports[0].Dir != "/a" || exports.Exports[0].Groups[0] != "192.0.2.0/24" {
		t.Errorf("%+v", exports)
	}
	dump := func(want ...mount3.Mount) {
		t.Helper()
		var res mount3.DumpRes
		p.rpc(mount3.Program, 3, uint32(mount3.ProcDump), &nfs3.Void{}, &res)
		if !slices.Equal(res.Mounts, want) {
			t.Errorf("DUMP %v, want %v", res.Mounts, want)
		}
	}
	umnt := func(dir string) {
		p.rpc(mount3.Program, 3, uint32(mount3.ProcUmnt), &mount3.PathArgs{Path: dir}, &nfs3.Void{})
	}
	host := "192.0.2.7"
	p.mnt("/a", mount3.OK)
	for vers := uint32(1); vers < 3; vers++ { // as version 3, without handles
		var res struct {
			mount3.DumpRes
			mount3.ExportRes
			mount3.MountRes
		}
		p.rpc(mount3.Program, vers, uint32(mount3.ProcMnt), &mount3.PathArgs{Path: "/a"}, &res.MountRes)
		p.rpc(mount3.Program, vers, uint32(mount3.ProcDump), &nfs3.Void{}, &res.DumpRes)
		p.rpc(mount3.Program, vers, uint32(mount3.ProcExport), &nfs3.Void{}, &res.ExportRes)
		if res.Status != mount3.ErrInval || len(res.Mounts) != 2 || len(res.Exports) != 3 {
			t.Errorf("version %d: %+v", vers, res)
		}
		p.rpc(mount3.Program, vers, uint32(mount3.ProcUmnt), &mount3.PathArgs{Path: "/nowhere"}, &nfs3.Void{})
	}
	dump(mount3.Mount{Host: host, Dir: "/a/deeper"}, mount3.Mount{Host: host, Dir: "/a"}) // mounted again, it is the newest
	umnt("/nowhere")
	umnt("/a")
	dump(mount3.Mount{Host: host, Dir: "/a/deeper"})
	p.rpc(mount3.Program, 3, uint32(mount3.ProcUmntAll), &nfs3.Void{}, &nfs3.Void{})
	dump()
}

// TestMountsKept: a server begins with the list that another one has left, and says when it changes.
func TestMountsKept(t *testing.T) {
	changes := 0
	before := []server.Mount{{Host: "192.0.2.9", Dir: "/export", Since: time.Unix(1, 0)}}
	s := newServer(t, mem.New(nil), func(c *server.Config) { c.Mounted, c.MountsChanged = before, func() { changes++ } })
	p := newPeer(t, s, sys(0, 0)) // mounts
	host := peeraddr.Host(p.addr)
	list := s.Mounts()
	if len(list) != 2 || list[0] != before[0] || list[1].Host != host || changes != 1 {
		t.Fatalf("%v, %d changes", list, changes)
	}
	p.mount("/export")
	if again := s.Mounts(); len(again) != 2 || again[1].Since.Before(list[1].Since) || changes != 2 {
		t.Errorf("%v, %d changes", again, changes)
	}
	if n := s.ForgetMounts(host); n != 1 || len(s.Mounts()) != 1 || changes != 3 {
		t.Errorf("%d forgotten of %v, %d changes", n, s.Mounts(), changes)
	}
	if n := s.ForgetMounts(host); n != 0 || changes != 3 {
		t.Errorf("%d forgotten, %d changes", n, changes)
	}
}

// TestCross: where another export is mounted LOOKUP leads to it, for those who may use it, and READDIRPLUS leaves that to LOOKUP.
func TestCross(t *testing.T) {
	top := mem.New(nil)
	list := []server.Export{
		{Path: "/e", FS: top, Squash: server.SquashNone},
		{Path: "/e/d/in", Under: "/e", FS: mem.New(nil), Squash: server.SquashNone, Clients: only("192.0.2.0/24")},
		{Path: "/e/hidden", FS: mem.New(nil)},
		{Path: "/e/away", Under: "/e"},
	}
	s := must(server.New(&server.Config{Exports: list}))(t)
	p := &peer{T: t, srv: s, cred: sys(0, 0), addr: testAddr}
	p.root = p.mnt("/e", mount3.OK).Handle
	d := p.mkdir(p.root, "d", 0o755)
	p.mkdir(p.root, "hidden", 0o755)
	p.mkdir(p.root, "away", 0o755)
	covered, beside := p.mkdir(d, "in", 0o755), p.mkdir(d, "beside", 0o755)
	in := p.mnt("/e/d/in", mount3.OK).Handle
	look := func(dir nfs3.FileHandle, name string, want nfs3.Status) nfs3.FileHandle {
		t.Helper()
		return nfs[nfs3.LookupRes](p, nfs3.ProcLookup, &nfs3.LookupArgs{Dir: dir, Name: name}, want).Handle
	}
	if got := look(d, "in", nfs3.OK); string(got) != string(in) {
		t.Errorf("%x, want %x", got, in)
	}
	if got := look(d, "beside", nfs3.OK); string(got) != string(beside) {
		t.Error("a directory beside it is another one")
	}
	if got := look(p.root, "hidden", nfs3.OK); string(got[:4]) != string(p.root[:4]) {
		t.Error("an export that is not said to be reached is")
	}
	look(p.root, "away", nfs3.ErrJukebox)
	res := nfs[nfs3.ReadDirPlusRes](p, nfs3.ProcReadDirPlus, &nfs3.ReadDirPlusArgs{Dir: d, DirCount: 4096, MaxCount: 4096}, nfs3.OK)
	for _, e := range res.Entries {
		if want := e.Name != "in"; e.Name != "." && e.Name != ".." && (e.Handle.Present != want || e.Attr.Present != want) {
			t.Errorf("%s has a handle: %v, attributes: %v", e.Name, e.Handle.Present, e.Attr.Present)
		}
	}
	p.addr = &net.TCPAddr{IP: net.IPv4(198, 51, 100, 1), Port: 700}
	if got := look(d, "in", nfs3.OK); string(got) != string(covered) {
		t.Error("a client that may not use it is led there")
	}
}

func TestMountTableBounded(t *testing.T) {
	const maxMounts = 1024
	p := newPeer(t, newServer(t, mem.New(nil)), sys(0, 0)) // the first
	for i := range maxMounts + 10 {
		p.addr = &net.TCPAddr{IP: net.IPv4(198, 51, byte(i>>8), byte(i)), Port: 1023}
		p.mount("/export")
	}
	var res mount3.DumpRes
	p.rpc(mount3.Program, 3, uint32(mount3.ProcDump), &nfs3.Void{}, &res)
	if l := res.Mounts; len(l) != maxMounts || l[0].Host != "198.51.0.10" {
		t.Errorf("%d entries, first %v", len(l), l[0])
	}
}

func only(nets ...string) []server.Client {
	c := server.Client{Squash: server.SquashNone, Secure: true}
	for _, n := range nets {
		c.Nets = append(c.Nets, netip.MustParsePrefix(n))
	}
	return []server.Client{c}
}

// TestNames: the first group that has the address counts. One of which that is not known yet may be it: what comes behind
// it waits, unless it has the same rights.
func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := false
		cfg := &server.Config{
			Exports: []server.Export{{Path: "/export", FS: mem.New(nil), Clients: []server.Client{
				{Nets: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}},
				{Names: []string{"slow", "fast"}, ReadOnly: true},
				{Names: []string{"same"}, ReadOnly: true},
				{Names: []string{"*.other"}},
			}}},
			Named: func(ctx context.Context, name string, ip netip.Addr) (bool, error) {
				if name != "slow" {
					return name == map[byte]string{2: "fast", 3: "same", 4: "*.other"}[ip.As4()[3]], nil
				}
				if !known {
					<-ctx.Done()
					return false, ctx.Err()
				}
				return false, nil
			},
		}
		s := must(server.New(cfg))(t)
		var root nfs3.FileHandle
		try := func(last byte, mnt mount3.Status, lookup nfs3.Status) {
			t.Helper()
			addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, last}), 700)
			p := &peer{T: t, srv: s, cred: sys(0, 0), addr: net.TCPAddrFromAddrPort(addr)}
			if res := p.mnt("/export", mnt); root == nil {
				root = res.Handle
			}
			nfs[nfs3.LookupRes](p, nfs3.ProcLookup, &nfs3.LookupArgs{Dir: root, Name: "x"}, lookup)
		}
		try(1, mount3.OK, nfs3.ErrNoEnt) // by address: nobody is asked
		try(2, mount3.OK, nfs3.ErrNoEnt) // another name of the same group
		try(3, mount3.OK, nfs3.ErrNoEnt) // another group, with the same rights
		try(4, mount3.ErrServerFault, nfs3.ErrJukebox)
		try(5, mount3.ErrServerFault, nfs3.ErrJukebox)
		known = true
		try(4, mount3.OK, nfs3.ErrNoEnt)
		try(5, mount3.ErrAcces, nfs3.ErrAcces)
		cfg.Named = nil
		if _, err := server.New(cfg); !errors.Is(err, rpc.ErrConfig) {
			t.Errorf("names that nobody knows: %v", err)
		}
	})
}

// TestAllow: a client that may not mount may not use a handle either.
func TestAllow(t *testing.T) {
	s := newServer(t, mem.New(nil), func(c *server.Config) {
		c.Exports[0].Clients = only("192.0.2.0/24")
	})
	p := newPeer(t, s, sys(0, 0))
	for _, addr := range []net.Addr{
		nil, &net.UnixAddr{Name: "x"}, net.TCPAddrFromAddrPort(netip.MustParseAddrPort("198.51.100.1:700")),
	} {
		q := *p
		q.addr = addr
		q.mnt("/export", mount3.ErrAcces)
		nfs[nfs3.LookupRes](&q, nfs3.ProcLookup, &nfs3.LookupArgs{Dir: p.root, Name: "x"}, nfs3.ErrAcces)
	}
	q := *p
	q.addr = net.TCPAddrFromAddrPort(netip.MustParseAddrPort("[::ffff:192.0.2.9]:700"))
	q.attr(p.root)
}

func TestConfigErrors(t *testing.T) {
	fsys := mem.New(nil)
	for name, cfg := range map[string]*server.Config{
		"no exports":    {},
		"relative":      {Exports: []server.Export{{Path: "a", FS: fsys}}},
		"not clean":     {Exports: []server.Export{{Path: "/a/", FS: fsys}}},
		"too long":      {Exports: []server.Export{{Path: "/" + strings.Repeat("a", 1024), FS: fsys}}},
		"twice":         {Exports: []server.Export{{Path: "/a", FS: fsys}, {Path: "/a", FS: fsys}}},
		"MaxIO 1000":    {MaxIO: 1000, Exports: []server.Export{{Path: "/a", FS: fsys}}},
		"MaxIO -4096":   {MaxIO: -4096, Exports: []server.Export{{Path: "/a", FS: fsys}}},
		"MaxIO too big": {MaxIO: 1<<30 + 4096, Exports: []server.Export{{Path: "/a", FS: fsys}}},
	} {
		if _, err := server.New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
