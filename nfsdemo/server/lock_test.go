package server_test

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport/rpc"
)

// TestLockFile: who may read or write a file may lock it; giving back needs only the export. A port of UDP is
// looked at like one of TCP.
func TestLockFile(t *testing.T) {
	fsys := mem.New(nil)
	s := newServer(t, fsys, func(c *server.Config) { c.Exports[0].Secure = true })
	attr := nfs3.SetAttr{SetMode: true, Mode: 0o600, SetUID: true, UID: 7}
	n, _, err := fsys.Root().Create("f", &backend.Init{Attr: attr})
	if err != nil {
		t.Fatal(err)
	}
	handle := s.FirstHandle(n)
	ask := func(uid uint32, port uint16, h nfs3.FileHandle, open bool) error {
		t.Helper()
		a := net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr("192.0.2.7"), port))
		c := &server.Call{Request: &rpc.Request{RemoteAddr: a, Network: "udp"}, Cred: server.Cred{UID: uid, GID: uid}}
		got, inner, err := s.LockFile(t.Context(), c, h, open)
		if err == nil && (got != backend.FS(fsys) || string(inner) != string(h[4:])) {
			t.Errorf("%v, %x", got, inner)
		}
		return err
	}
	none := append(append(nfs3.FileHandle(nil), handle...), 0)
	other := append(nfs3.FileHandle{1, 2, 3, 4}, handle[4:]...)
	for _, tt := range []struct {
		what string
		err  error
		want error
	}{
		{"the owner", ask(7, 700, handle, true), nil},
		{"another", ask(8, 700, handle, true), nfs3.ErrAcces},
		{"another gives back", ask(8, 700, handle, false), nil},
		{"a port above 1023", ask(7, 1024, handle, true), nfs3.ErrAcces},
		{"a port above 1023 gives back", ask(7, 1024, handle, false), nfs3.ErrAcces},
		{"no handle", ask(7, 700, none, true), nfs3.ErrBadHandle},
		{"a handle of no export", ask(7, 700, other, true), nfs3.ErrStale},
		{"a short handle", ask(7, 700, handle[:4], false), nfs3.ErrBadHandle},
		{"a long handle", ask(7, 700, make(nfs3.FileHandle, 65), false), nfs3.ErrBadHandle},
	} {
		if !errors.Is(tt.err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.what, tt.err, tt.want)
		}
	}
}
