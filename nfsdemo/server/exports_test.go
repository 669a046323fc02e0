package server_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport/gss"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func from(ip string, port uint16) net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(ip), port))
}

// TestClients: options by client. Who is refused a
// mount is logged, and why.
func TestClients(t *testing.T) {
	core, logged := observer.New(zap.WarnLevel)
	fsys := mem.New(nil)
	s := newServer(t, fsys, func(c *server.Config) {
		c.Logger = zap.New(core)
		c.Exports[0].Squash = server.SquashAll
		c.Exports[0].Clients = []server.Client{
			{Nets: []netip.Prefix{netip.MustParsePrefix("192.0.2.8/32")}, ReadOnly: true, Squash: server.SquashNone},
			{Nets: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, Squash: server.SquashRoot, AnonUID: 77, AnonGID: 78},
			{Nets: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}, Squash: server.SquashAll},
			{Nets: []netip.Prefix{netip.MustParsePrefix("203.0.113.6/32")}, Squash: server.SquashRoot, AnonGID: 78}, // the other is not root's
		}
	})
	root, err := fsys.Root().Attr()
	if err != nil || root.Mode != 0o777 {
		t.Fatal(root, err)
	}
	for _, c := range []struct {
		ip     string
		status nfs3.Status
		uid    uint32
	}{
		{"192.0.2.8", nfs3.ErrROFS, 0},
		{"192.0.2.9", nfs3.OK, 77},
		{"198.51.100.1", nfs3.OK, server.Nobody},
		{"203.0.113.6", nfs3.OK, server.Nobody},
	} {
		p := &peer{T: t, srv: s, cred: sys(0, 0), addr: from(c.ip, 1023)}
		p.root = p.mount("/export")
		r := nfs[nfs3.CreateRes](p, nfs3.ProcCreate, &nfs3.CreateArgs{Where: at(p.root, c.ip), Mode: nfs3.Guarded, Attr: mode(0o600)}, c.status)
		if c.status == nfs3.OK && r.Attr.Attr.UID != c.uid {
			t.Errorf("%s: a file of %d", c.ip, r.Attr.Attr.UID)
		}
		h := p.root
		p.addr = from("203.0.113.5", 1023)
		nfs[nfs3.FSStatRes](p, nfs3.ProcFSStat, &nfs3.HandleArgs{Handle: h}, nfs3.ErrIO) // ACCES is not in its list
		p.mnt("/export", mount3.ErrAcces)
	}
	all := logged.FilterMessage("server: mount refused").All()
	if len(all) != 4 {
		t.Fatalf("%d refusals logged", len(all))
	}
	if m := all[0].ContextMap(); m["client"] != "203.0.113.5" || m["error"] != "no export to this address" || m["path"] != "/export" || m["machine"] != "client" {
		t.Errorf("%v", m)
	}
}

// TestSetExports: what is served can change; handles of what is gone are stale, the others stay.
func TestSetExports(t *testing.T) {
	a, b := mem.New(nil), mem.New(nil)
	s := newServer(t, a)
	p := newPeer(t, s, sys(0, 0))
	old := p.create(p.root, "f", 0o644)
	noErr(t, s.SetExports([]server.Export{{Path: "/b", FS: b, Squash: server.SquashNone}, {Path: "/export", FS: a, ReadOnly: true}}))
	p.attr(old)
	setattr(p, old, mode(0o600), nfs3.ErrROFS)
	p.create(p.mount("/b"), "g", 0o644)
	noErr(t, s.SetExports([]server.Export{{Path: "/b", FS: b}}))
	nfs[nfs3.GetAttrRes](p, nfs3.ProcGetAttr, &nfs3.HandleArgs{Handle: old}, nfs3.ErrStale)
	for _, bad := range [][]server.Export{{{Path: "b", FS: b}}, {{Path: "/b", FS: b}, {Path: "/b", FS: a}}} {
		if s.SetExports(bad) == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
	g := p.mount("/b") // an error changes nothing
	noErr(t, s.SetExports(nil))
	nfs[nfs3.GetAttrRes](p, nfs3.ProcGetAttr, &nfs3.HandleArgs{Handle: g}, nfs3.ErrStale)
	p.mnt("/b", mount3.ErrNoEnt)
}

// held is an FS whose Usage waits.
type held struct {
	backend.FS
	begun, end chan struct{}
}

func (h held) Usage() (backend.Usage, error) {
	close(h.begun)
	<-h.end
	return h.FS.Usage()
}

// TestReleased: an FS is released once, when it is exported no longer and the last call that uses it has ended; while
// there is none in its place, calls wait and mounts are refused, and the handles stay good.
func TestReleased(t *testing.T) {
	files, released := mem.New(nil), 0
	fs := held{files, make(chan struct{}), make(chan struct{})}
	e := server.Export{Path: "/export", FS: fs, Squash: server.SquashNone, Released: func() { released++ }}
	s := must(server.New(&server.Config{Exports: []server.Export{e}}))(t)
	p := newPeer(t, s, sys(0, 0))
	f := p.create(p.root, "f", 0o644)
	set := func(e server.Export, want int) {
		t.Helper()
		noErr(t, s.SetExports([]server.Export{e}))
		if released != want {
			t.Errorf("released %d times, want %d", released, want)
		}
	}
	e.ReadOnly = true
	set(e, 0)
	done, slow := make(chan struct{}), p.as(sys(0, 0))
	go func() {
		defer close(done)
		nfs[nfs3.FSStatRes](slow, nfs3.ProcFSStat, &nfs3.HandleArgs{Handle: p.root}, nfs3.OK)
	}()
	<-fs.begun
	away := e
	away.FS, away.Released = nil, func() { t.Error("there was none") }
	set(away, 0)
	nfs[nfs3.GetAttrRes](p, nfs3.ProcGetAttr, &nfs3.HandleArgs{Handle: f}, nfs3.ErrJukebox)
	p.mnt("/export", mount3.ErrIO)
	close(fs.end)
	<-done
	e.FS, e.Released = files, nil
	set(e, 1)
	p.attr(f)
}

// over returns the status of a GETATTR of the root, or why the call was denied.
func over(t *testing.T, s *server.Server, network string, addr net.Addr, cred xdr.Auth) (nfs3.Status, error) {
	t.Helper()
	root := (&peer{T: t, srv: s, cred: cred, addr: testAddr}).mount("/export")
	req := &rpc.Request{
		CallHeader: xdr.CallHeader{RPCVers: 2, Prog: nfs3.Program, Vers: nfs3.Version, Proc: uint32(nfs3.ProcAccess), Cred: cred},
		Args:       xdr.Encode(nil, &nfs3.AccessArgs{Handle: root, Access: nfs3.AccessAll}), RemoteAddr: addr, Network: network,
	}
	var resp rpc.Response
	s.ServeRPC(t.Context(), req, &resp)
	if resp.Results == nil {
		return 0, errDenied
	}
	d := xdr.NewDecoder(resp.Results)
	return nfs3.Status(d.Uint32()), nil
}

var errDenied = errors.New("denied")

// TestSecure: over TCP the port must be root's, unless the user is known, or no id is believed.
func TestSecure(t *testing.T) {
	local := from("192.0.2.1", 40000)
	secure := func(c *server.Config) {
		c.Exports[0].Secure = true
		c.Local = func(a net.Addr) (server.User, bool) { return server.User{UID: 7, GIDs: []uint32{7}}, a == local }
	}
	s := newServer(t, mem.New(nil), secure)
	for _, c := range []struct {
		what, network string
		s             *server.Server
		addr          net.Addr
		want          nfs3.Status
	}{
		{"root's port", "tcp", s, from("192.0.2.1", 1023), nfs3.OK},
		{"anybody's port", "tcp", s, from("192.0.2.1", 1024), nfs3.ErrAcces},
		{"anybody's port over UDP", "udp", s, &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1024}, nfs3.ErrAcces},
		{"anybody's port over RDMA", "rdma", s, from("192.0.2.1", 1024), nfs3.OK},
		{"a user who is known", "tcp", s, local, nfs3.OK},
		{"nobody is believed", "tcp", newServer(t, notOwners{mem.New(nil)}, secure), from("192.0.2.1", 1024), nfs3.OK},
		{"insecure", "tcp", newServer(t, mem.New(nil)), from("192.0.2.1", 1024), nfs3.OK},
	} {
		got, err := over(t, c.s, c.network, c.addr, sys(7, 7))
		if c.want == nfs3.ErrAcces {
			c.want = server.Fit(nfs3.ProcAccess, c.want)
		}
		if err != nil || got != c.want {
			t.Errorf("%s: %v, %v, want %v", c.what, got, err, c.want)
		}
	}
}

// TestXprtSec: no procedure of NFS runs on a connection that is not protected as the export says, for all clients or for
// some of them; MOUNT and NULL do (as exports(5)).
func TestXprtSec(t *testing.T) {
	kinds := map[server.XprtSec]*tls.ConnectionState{
		server.XprtNone: nil, server.XprtTLS: {PeerCertificates: []*x509.Certificate{{}}}, // which nobody has verified
		server.XprtMTLS: {VerifiedChains: [][]*x509.Certificate{{{}}}},
	}
	for _, ofClient := range []bool{false, true} {
		for x := range server.XprtSec(8) {
			s := newServer(t, mem.New(nil), func(c *server.Config) {
				if c.Exports[0].XprtSec = x; ofClient {
					c.Exports[0].XprtSec = server.XprtNone
					c.Exports[0].Clients = []server.Client{{Squash: server.SquashNone, XprtSec: x}}
				}
			})
			root := (&peer{T: t, srv: s, cred: sys(7, 7), addr: testAddr}).mount("/export")
			for kind, state := range kinds {
				for proc := range nfs3.Proc(nfs3.ProcCount) {
					req := &rpc.Request{
						CallHeader: xdr.CallHeader{RPCVers: 2, Prog: nfs3.Program, Vers: nfs3.Version, Proc: uint32(proc), Cred: sys(7, 7)},
						Args:       append(xdr.AppendOpaque(nil, root), make([]byte, 200)...), RemoteAddr: testAddr, Network: "tcp", TLS: state,
					}
					var resp rpc.Response
					s.ServeRPC(t.Context(), req, &resp)
					d := xdr.NewDecoder(resp.Results)
					refused := len(resp.Results) > 0 && nfs3.Status(d.Uint32()) == nfs3.ErrAcces
					if want := x != 0 && x&kind == 0 && proc != nfs3.ProcNull; refused && !want && proc == nfs3.ProcGetAttr || want && !refused && resp.Stat == xdr.Success {
						t.Errorf("xprtsec=%v, connection %v, %v: refused %v", x, kind, proc, refused)
					}
				}
			}
		}
	}
}

// TestCerts: clients are named by what their verified certificate says, and by nothing else; their users are squashed as their
// group says. MOUNT, which Linux calls in clear, is answered.
func TestCerts(t *testing.T) {
	s := newServer(t, mem.New(nil), func(c *server.Config) {
		c.Exports[0].Clients = []server.Client{
			{Certs: []string{"build.example.com", "spiffe://example.com/build"}, Squash: server.SquashNone},
			{Certs: []string{"CN=guest,O=org"}, Squash: server.SquashAll, AnonUID: 9, AnonGID: 9},
		}
	})
	p := &peer{T: t, srv: s, cred: sys(7, 7), addr: testAddr}
	p.root = p.mount("/export")
	spiffe, err := url.Parse("spiffe://example.com/build")
	noErr(t, err)
	verified := func(c *x509.Certificate) *tls.ConnectionState {
		return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}, VerifiedChains: [][]*x509.Certificate{{c, {DNSNames: []string{"build.example.com"}}}}}
	}
	guest := pkix.Name{CommonName: "guest", Organization: []string{"org"}}
	build := &x509.Certificate{DNSNames: []string{"other.example.com", "BUILD.example.com"}}
	for name, tt := range map[string]struct {
		tls   *tls.ConnectionState
		owner uint32 // of what user 7 makes; 0: he may not
	}{
		"clear":            {nil, 0},
		"no certificate":   {&tls.ConnectionState{}, 0},
		"not verified":     {&tls.ConnectionState{PeerCertificates: []*x509.Certificate{build}}, 0},
		"a DNS name":       {verified(build), 7},
		"a URI":            {verified(&x509.Certificate{URIs: []*url.URL{spiffe}}), 7},
		"a subject":        {verified(&x509.Certificate{Subject: guest}), 9},
		"a part of it":     {verified(&x509.Certificate{Subject: pkix.Name{CommonName: "guest"}}), 0},
		"a common name":    {verified(&x509.Certificate{Subject: pkix.Name{CommonName: "build.example.com"}}), 0},
		"that of the CA":   {verified(&x509.Certificate{}), 0},
		"a name around it": {verified(&x509.Certificate{DNSNames: []string{"build.example.com.evil"}}), 0},
		"a wildcard":       {verified(&x509.Certificate{DNSNames: []string{"*.example.com"}}), 0},
	} {
		args := &nfs3.CreateArgs{Where: at(p.root, name), Mode: nfs3.Guarded, Attr: mode(0o600)}
		req := &rpc.Request{
			CallHeader: xdr.CallHeader{RPCVers: 2, Prog: nfs3.Program, Vers: nfs3.Version, Proc: uint32(nfs3.ProcCreate), Cred: sys(7, 7)},
			Args:       xdr.Encode(nil, args), RemoteAddr: testAddr, Network: "tcp", TLS: tt.tls,
		}
		var resp rpc.Response
		s.ServeRPC(t.Context(), req, &resp)
		var res nfs3.CreateRes
		d := xdr.NewDecoder(resp.Results)
		noErr(t, xdr.Decode(&d, &res).Err())
		if tt.owner == 0 && res.Status != nfs3.ErrAcces || tt.owner != 0 && (res.Status != nfs3.OK || res.Attr.Attr.UID != tt.owner) {
			t.Errorf("%s: %v, owner %d, want %d", name, res.Status, res.Attr.Attr.UID, tt.owner)
		}
		req.Prog, req.Proc, req.Args = nfs3.ACLProgram, nfs3.ProcGetACL, xdr.Encode(nil, &nfs3.GetACLArgs{Handle: p.root, Mask: nfs3.ACLAccess})
		resp = rpc.Response{}
		s.ServeRPC(t.Context(), req, &resp)
		if refused := nfs3.Status(binary.BigEndian.Uint32(resp.Results)) == nfs3.ErrAcces; refused != (tt.owner == 0) {
			t.Errorf("%s: NFSACL says %x", name, resp.Results)
		}
	}
}

// TestLocal: a user of this machine has his own uid and groups; root has any.
func TestLocal(t *testing.T) {
	user := server.User{UID: 7, GIDs: []uint32{70, 71}}
	s := newServer(t, mem.New(nil), func(c *server.Config) {
		c.Local = func(net.Addr) (server.User, bool) { return user, true }
	})
	made := func(cred xdr.Auth) nfs3.Attr {
		t.Helper()
		p := newPeer(t, s, cred)
		r := nfs[nfs3.CreateRes](p, nfs3.ProcCreate, &nfs3.CreateArgs{Where: at(p.root, "f"), Mode: nfs3.Guarded, Attr: mode(0o600)}, nfs3.OK)
		a := at(p.root, "f")
		nfs[nfs3.RemoveRes](p, nfs3.ProcRemove, &a, nfs3.OK)
		return r.Attr.Attr
	}
	for _, c := range []struct{ claim, want uint32 }{{70, 70}, {71, 71}, {0, 70}, {99, 70}} {
		if a := made(sys(7, c.claim)); a.UID != 7 || a.GID != c.want {
			t.Errorf("gid %d: a file of %d:%d", c.claim, a.UID, a.GID)
		}
	}
	for _, uid := range []uint32{0, 8, ^uint32(0)} {
		if _, err := over(t, s, "rdma", testAddr, sys(uid, 70)); err == nil {
			t.Errorf("uid %d was believed", uid)
		}
	}
	c, _, stat := server.CredOf(&s.Mux, &rpc.Request{CallHeader: xdr.CallHeader{Prog: nfs3.Program, Proc: 1, Cred: sys(7, 70, 71, 0, 72)}})
	if stat != xdr.AuthOK || len(c.GIDs) != 1 || c.GIDs[0] != 71 {
		t.Errorf("%+v, %v", c, stat)
	}
	user = server.User{UID: ^uint32(0)} // not known: nobody is believed
	for _, cred := range []xdr.Auth{sys(7, 70), sys(^uint32(0), 70), sys(0, 0), {}} {
		if _, err := over(t, s, "rdma", testAddr, cred); err == nil {
			t.Errorf("an unknown user was believed: %+v", cred)
		}
	}
	user = server.User{}
	if a := made(sys(9, 9)); a.UID != 9 {
		t.Errorf("root as 9: %+v", a)
	}
}

// TestSec: no procedure of NFS runs for a user who is not known as the export says, except those that a client calls before
// it knows what that is, for the root alone (RFC 2623 Section 2.3.2).
func TestSec(t *testing.T) {
	flavors := []xdr.AuthFlavor{xdr.AuthSys, server.Krb5, server.Krb5i, server.Krb5p}
	asksFirst := []nfs3.Proc{nfs3.ProcGetAttr, nfs3.ProcFSInfo, nfs3.ProcFSStat}
	for set := range 16 {
		var sec []xdr.AuthFlavor
		for i, f := range flavors {
			if set>>i&1 == 1 {
				sec = append([]xdr.AuthFlavor{f}, sec...)
			}
		}
		s := newServer(t, mem.New(nil), func(c *server.Config) {
			if c.Exports[0].Sec = sec; set%2 == 0 { // for a group of clients
				c.Exports[0].Clients = []server.Client{{Squash: server.SquashNone, Sec: sec}}
			}
		})
		p := &peer{T: t, srv: s, cred: sys(7, 7), addr: testAddr}
		root := p.mount("/export")
		for i, f := range flavors {
			for proc := range nfs3.Proc(nfs3.ProcCount) {
				for _, h := range [][]byte{root, append(bytes.Clone(root), 0)} {
					req := &rpc.Request{
						CallHeader: xdr.CallHeader{RPCVers: 2, Prog: nfs3.Program, Vers: nfs3.Version, Proc: uint32(proc), Cred: sys(7, 7)},
						Args:       append(xdr.AppendOpaque(nil, h), make([]byte, 200)...), RemoteAddr: testAddr, Network: "tcp",
					}
					if i > 0 {
						req.GSS = &gss.Call{Principal: gss.Principal{Mechanism: "krb5", Name: "alice@R"}, Service: gss.Service(i)}
					}
					var resp rpc.Response
					s.ServeRPC(t.Context(), req, &resp)
					d := xdr.NewDecoder(resp.Results)
					refused := len(resp.Results) > 0 && nfs3.Status(d.Uint32()) == nfs3.ErrAcces
					want := !slices.Contains(sec, f) && (len(sec) > 0 || i > 0) && proc != nfs3.ProcNull
					if want && i == 0 && slices.Contains(asksFirst, proc) && bytes.Equal(h, root) {
						want = false
					}
					if refused && !want && slices.Contains(asksFirst, proc) || want && !refused && resp.Stat == xdr.Success {
						t.Errorf("sec=%v, a call with %v, %v, root %v: refused %v", sec, f, proc, bytes.Equal(h, root), refused)
					}
				}
			}
		}
		var resp rpc.Response
		s.ServeRPC(t.Context(), &rpc.Request{
			CallHeader: xdr.CallHeader{RPCVers: 2, Prog: mount3.Program, Vers: mount3.Version, Proc: uint32(mount3.ProcMnt), Cred: sys(7, 7)},
			Args:       xdr.AppendString(nil, "/export"), RemoteAddr: testAddr, Network: "tcp",
		}, &resp)
		var res mount3.MountRes
		d := xdr.NewDecoder(resp.Results)
		if err := xdr.Decode(&d, &res).Err(); err != nil || len(sec) > 0 && !slices.Equal(res.Flavors, sec) {
			t.Errorf("sec=%v: MNT says %v, %v", sec, res.Flavors, err)
		}
	}
}

// TestPrincipals: a verified principal is the user that Config.Principal says, whoever has the socket and from whatever port;
// others are anonymous, whatever root_squash says, and whatever uid the credential has room for.
func TestPrincipals(t *testing.T) {
	s := newServer(t, mem.New(nil), func(c *server.Config) {
		c.Exports[0].Sec, c.Exports[0].Squash, c.Exports[0].Secure = []xdr.AuthFlavor{server.Krb5p}, server.SquashNone, true
		c.Local = func(net.Addr) (server.User, bool) { return server.User{UID: 9, GIDs: []uint32{9}}, true }
		c.Principal = func(p gss.Principal) (server.User, bool) {
			return server.User{UID: 7, GIDs: []uint32{8, 5}}, p.Name == "alice@R"
		}
	})
	root := (&peer{T: t, srv: s, cred: sys(9, 9), addr: testAddr}).mount("/export")
	for i, tt := range []struct {
		name string
		uid  uint32
		gid  uint32
	}{{"alice@R", 7, 8}, {"root/admin@R", server.Nobody, server.Nobody}, {"host/a@R", server.Nobody, server.Nobody}} {
		args := xdr.AppendOpaque(nil, root)
		args = xdr.AppendString(args, fmt.Sprint("d", i))
		args = append(args, make([]byte, 24)...) // no attributes
		req := &rpc.Request{
			CallHeader: xdr.CallHeader{RPCVers: 2, Prog: nfs3.Program, Vers: nfs3.Version, Proc: uint32(nfs3.ProcMkdir), Cred: xdr.Auth{Flavor: xdr.RPCSECGSS}},
			Args:       args, RemoteAddr: testAddr, Network: "tcp",
			GSS: &gss.Call{Principal: gss.Principal{Mechanism: "krb5", Name: tt.name}, Service: gss.Privacy},
		}
		var resp rpc.Response
		s.ServeRPC(t.Context(), req, &resp)
		var res nfs3.MkdirRes
		d := xdr.NewDecoder(resp.Results)
		if err := xdr.Decode(&d, &res).Err(); err != nil || res.Status != nfs3.OK || res.Attr.Attr.UID != tt.uid || res.Attr.Attr.GID != tt.gid {
			t.Errorf("%s: %+v, %v", tt.name, res, err)
		}
	}
}
