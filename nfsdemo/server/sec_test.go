package server_test

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport/gss"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

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
