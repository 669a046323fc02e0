package ops_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/internal/ops"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// TestMounts: every outcome of MNT is one line, with who, what and why.
func TestMounts(t *testing.T) {
	path := mount3.PathArgs{Path: "/srv/a b"}
	sys := xdr.Auth{Flavor: xdr.AuthSys, Body: (&xdr.SysCred{MachineName: "host", UID: 7}).Append(nil)}
	for _, tt := range []struct {
		name string
		req  rpc.Request
		res  mount3.MountRes
		deny bool
		want string
	}{
		{
			"granted", call(mount3.ProcMnt, sys),
			mount3.MountRes{Handle: []byte("h")},
			false,
			`level=INFO msg="mount granted" client=192.0.2.1:700 transport=rdma path="/srv/a b" machine=host uid=7` + "\n",
		},
		{
			"refused", call(mount3.ProcMnt, xdr.Auth{}),
			mount3.MountRes{Status: mount3.ErrAcces},
			false,
			`level=WARN msg="mount refused" client=192.0.2.1:700 transport=rdma path="/srv/a b" why="MNT3ERR_ACCES: the export does not admit this client"` + "\n",
		},
		{
			"none", call(mount3.ProcMnt, xdr.Auth{}),
			mount3.MountRes{Status: mount3.ErrNoEnt},
			false,
			`why="MNT3ERR_NOENT: no such export, or no such directory in it"` + "\n",
		},
		{"a file", call(mount3.ProcMnt, xdr.Auth{}), mount3.MountRes{Status: mount3.ErrNotDir}, false, `why="MNT3ERR_NOTDIR: not a directory"` + "\n"},
		{"broken", call(mount3.ProcMnt, xdr.Auth{}), mount3.MountRes{Status: mount3.ErrIO}, false, `why="MNT3ERR_IO: the export cannot be used now"` + "\n"},
		{"denied", call(mount3.ProcMnt, xdr.Auth{}), mount3.MountRes{}, true, `why="the call was denied: wrong credentials"` + "\n"},
		{"unmounted", call(mount3.ProcUmnt, sys), mount3.MountRes{}, true, `level=INFO msg=unmounted client=192.0.2.1:700`},
		{"other procedures", call(mount3.ProcExport, sys), mount3.MountRes{}, true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.req.Args = xdr.Encode(nil, &path)
			var out bytes.Buffer
			h := ops.New(rpc.HandlerFunc(func(_ context.Context, _ *rpc.Request, resp *rpc.Response) {
				if tt.deny {
					resp.Deny(xdr.AuthTooWeak)
					return
				}
				resp.Results = xdr.Encode(resp.Results, &tt.res)
			}), transport.SlogLogger(slog.NewTextHandler(&out, nil)), nil)
			h.ServeRPC(t.Context(), &tt.req, new(rpc.Response))
			if got := out.String(); !strings.Contains(got, tt.want) || strings.Count(got, "\n") > 1 || tt.want == "" && got != "" {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// call is a call to MOUNT.
func call(p mount3.Proc, cred xdr.Auth) rpc.Request {
	return rpc.Request{
		CallHeader: xdr.CallHeader{Prog: mount3.Program, Vers: mount3.Version, Proc: uint32(p), Cred: cred},
		RemoteAddr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 700}, Network: "rdma",
	}
}
