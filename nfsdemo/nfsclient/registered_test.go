package nfsclient_test

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"syscall"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpcbind"
)

// quietHost is an address of this machine on which nobody listens.
const quietHost = "127.77.77.77"

// TestDialRegistered: a URL without a port finds the server through rpcbind when nobody
// listens on the well-known one; a URL with a port does not look further.
func TestDialRegistered(t *testing.T) {
	l, err := net.Listen("tcp", quietHost+":0")
	if err != nil {
		t.Skipf("no second loopback address here: %v", err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	rdma, tcp, _ := serve(t, false)
	tab := new(rpcbind.Table)
	for _, s := range [][2]string{{rdma, rpcbind.NetRDMA}, {tcp, rpcbind.NetTCP}} {
		u := must(url.Parse(s[0]))(t)
		tab.Entries = append(tab.Entries, rpcbind.Entry{
			Prog: nfs3.Program, Vers: nfs3.Version, Netid: s[1], Addr: rpcbind.Universal(netip.MustParseAddrPort(u.Host)),
		})
	}
	s := &transport.Server{Handler: tab}
	go s.ServeStream(l)
	t.Cleanup(func() { s.Close() })

	cfg := nfsclient.Config{}.WithRPCBind(port)
	for _, scheme := range []nfsclient.Scheme{nfsclient.SchemeRDMA, nfsclient.SchemeTCP} {
		if c := mustDial(t, string(scheme)+"://"+quietHost+"/export", cfg); c.Export() != "/export" {
			t.Errorf("%s: export %q", scheme, c.Export())
		}
		for _, bad := range []string{":20049/export", "/export?nfsport=20049"} {
			if _, err := dial(t, string(scheme)+"://"+quietHost+bad, cfg); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("%s%s: %v", scheme, bad, err)
			}
		}
	}
	if _, err := dial(t, "nfs+rdma://"+quietHost+"/export", nfsclient.Config{}.WithRPCBind("1")); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("without rpcbind: %v", err)
	}
}
