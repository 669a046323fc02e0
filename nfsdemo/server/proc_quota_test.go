package server_test

import (
	"context"
	"encoding/binary"
	"net"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// limited is an FS with quotas: the id says how much, and is of a user that acts for itself.
type limited struct{ backend.FS }

func (limited) Info() backend.Info { return backend.Info{Owners: true, NameMax: 255} }

func (limited) Quota(group bool, id uint32) (backend.Quota, error) {
	switch {
	case id == 13:
		return backend.Quota{}, nfs3.ErrNotSupp
	case id == 14:
		return backend.Quota{}, nfs3.ErrPerm
	case group:
		return backend.Quota{Bytes: 1, SoftBytes: 2 << 40, HardBytes: 8 << 40, Files: 1 << 40, BytesTill: time.Now().Add(-time.Minute)}, nil
	}
	return backend.Quota{Bytes: uint64(id) << 10, SoftBytes: 2048, HardBytes: 4096, Files: 5, SoftFiles: 6, HardFiles: 7, FilesTill: time.Now().Add(time.Hour)}, nil
}

// TestQuota: everybody sees his own quotas, and root all of them where the export leaves him root; nobody sets them.
func TestQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := server.New(&server.Config{Exports: []server.Export{
			{Path: "/e", FS: limited{mem.New(nil)}, Squash: server.SquashNone, Secure: true},
			{Path: "/e/root", FS: limited{mem.New(nil)}},
			{Path: "/e/all", FS: limited{mem.New(nil)}, Squash: server.SquashAll, AnonUID: 77, AnonGID: 78},
			{Path: "/none", FS: mem.New(nil), Squash: server.SquashNone},
			{Path: "/away", Squash: server.SquashNone},
			{Path: "/closed", FS: limited{mem.New(nil)}, Squash: server.SquashNone, Clients: only("2001:db8::/32")},
			{Path: "/krb5", FS: limited{mem.New(nil)}, Squash: server.SquashNone, Sec: []xdr.AuthFlavor{server.Krb5p}},
			{Path: "/tls", FS: limited{mem.New(nil)}, Squash: server.SquashNone, XprtSec: server.XprtTLS},
		}})
		if err != nil {
			t.Fatal(err)
		}
		of := func(id uint32) []uint32 { return []uint32{1, 1024, 1, 4, 2, id, 7, 6, 5, 0, 3600} }
		group := []uint32{1, 4096, 1, 2 << 30, 1 << 29, 1, 0, 0, 1<<32 - 1, 1<<32 - 60, 0}
		none, perm := []uint32{2}, []uint32{3}
		for _, c := range []struct {
			name       string
			cred       xdr.Auth
			path       string
			vers, proc uint32
			args       []uint32 // in version 2 the type first
			want       []uint32
		}{
			{"own", sys(5, 6), "/e", 1, 1, []uint32{5}, of(5)},
			{"own, active, below", sys(5, 6), "/e/x/y", 1, 2, []uint32{5}, of(5)},
			{"other", sys(5, 6), "/e", 1, 1, []uint32{7}, perm},
			{"root", sys(0, 0), "/e", 1, 1, []uint32{7}, of(7)},
			{"root, squashed", sys(0, 0), "/e/root", 1, 1, []uint32{7}, perm},
			{"root, squashed, his own", sys(0, 0), "/e/root", 1, 1, []uint32{0}, of(65534)},
			{"all squashed", sys(5, 6), "/e/all", 1, 1, []uint32{5}, of(77)},
			{"who he is there", sys(5, 6), "/e/all", 1, 1, []uint32{77}, perm},
			{"version 2", sys(5, 6), "/e", 2, 1, []uint32{0, 5}, of(5)},
			{"group", sys(5, 6), "/e", 2, 1, []uint32{1, 6}, group},
			{"another group of his", sys(5, 6, 8, 9), "/e", 2, 1, []uint32{1, 9}, group},
			{"a group of others", sys(5, 6, 8, 9), "/e", 2, 1, []uint32{1, 10}, perm},
			{"project", sys(0, 0), "/e", 2, 1, []uint32{2, 6}, none},
			{"nobody", xdr.Auth{}, "/e", 1, 1, []uint32{0}, perm},
			{"no quota", sys(13, 6), "/e", 1, 1, []uint32{13}, none},
			{"not told to us", sys(14, 6), "/e", 1, 1, []uint32{14}, perm},
			{"no quotas", sys(5, 6), "/none", 1, 1, []uint32{5}, none},
			{"not there", sys(5, 6), "/away", 1, 1, []uint32{5}, none},
			{"not exported", sys(5, 6), "/other", 1, 1, []uint32{5}, none},
			{"not to him", sys(0, 0), "/closed", 1, 1, []uint32{5}, perm},
			{"not known by Kerberos", sys(0, 0), "/krb5", 1, 1, []uint32{5}, perm},
			{"in clear", sys(0, 0), "/tls", 1, 1, []uint32{5}, perm},
			{"set", sys(0, 0), "/e", 1, 3, []uint32{1, 5, 0, 0, 0}, perm},
			{"set active", sys(0, 0), "/e", 2, 4, nil, perm},
		} {
			args := xdr.AppendString(nil, c.path)
			for _, n := range c.args {
				args = xdr.AppendUint32(args, n)
			}
			// From a port that every user can have.
			req := rpc.Request{
				CallHeader: xdr.CallHeader{RPCVers: 2, Prog: server.QuotaProgram, Vers: c.vers, Proc: c.proc, Cred: c.cred},
				Args:       args, RemoteAddr: &net.UDPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 4000}, Network: "udp",
			}
			var resp rpc.Response
			s.ServeRPC(context.Background(), &req, &resp)
			var got []uint32
			for b := resp.Results; len(b) >= 4; b = b[4:] {
				got = append(got, binary.BigEndian.Uint32(b))
			}
			if !reflect.DeepEqual(got, c.want) || resp.Stat != 0 {
				t.Errorf("%s: %v %d, want %d", c.name, resp.Stat, got, c.want)
			}
			if req.Args = args[:len(args)-2]; c.proc < 3 {
				resp.Reset()
				if s.ServeRPC(context.Background(), &req, &resp); resp.Stat != xdr.GarbageArgs {
					t.Errorf("%s, cut: %v", c.name, resp.Stat)
				}
			}
		}
	})
}
