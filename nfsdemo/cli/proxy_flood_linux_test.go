package cli

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

// TestProxyFloods: silent connections of one address to the ports of a proxy for TCP are limited and counted, and another
// address is answered at once.
func TestProxyFloods(t *testing.T) {
	s := started(t, &serviceConfig{exports: one(t.TempDir()), rdma: "127.0.0.1:0", tcp: "127.0.0.1:0", config: &transport.Config{}})
	_, port, _ := net.SplitHostPort(addrOf(s.tcp))
	ports, _ := startProxy(t, "--to", "nfs+rdma://"+addrOf(s.rdma)+"/?mountport="+port, "--listen", "127.0.0.1:0", "--mount-listen", "127.0.0.1:0",
		"--status", "127.0.0.1:0", "--client-connections", "32")
	from := func(ip, addr string) net.Conn {
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() }) // nothing is awaited
		return c
	}
	for _, name := range []string{"TCP", "MOUNT"} {
		for range 40 {
			from("127.0.0.2", ports[name])
		}
		c := must(transport.NewStreamClient(context.Background(), from("127.0.0.3", ports[name]), nil))(t)
		begun := time.Now()
		call := &rpc.Call{Prog: 100003, Vers: 3}
		if name == "MOUNT" {
			call = &rpc.Call{Prog: mount3.Program, Vers: mount3.Version, Proc: uint32(mount3.ProcExport)}
		}
		var reply rpc.Reply
		if err := c.Do(t.Context(), call, &reply); err != nil || reply.Header.Err() != nil || time.Since(begun) > 5*time.Second {
			t.Errorf("%s: after %v: %v, %v", name, time.Since(begun), err, reply.Header.Err())
		}
		reply.Release()
		_ = c.Close() // nothing is awaited
	}
	metrics := string(get(t, "http://"+ports["STATUS"]+"/metrics", http.StatusOK))
	for _, want := range []string{"nfsdemo_transport_too_many_total 8", "nfsdemo_proxy_mount_refused_total 8"} {
		if !strings.Contains(metrics, "\n"+want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}
