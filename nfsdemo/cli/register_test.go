package cli

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpcbind"
	"github.com/stag-rdma/stag/xdr"
)

// daemon is an rpcbind that takes registrations.
type daemon struct {
	mu    sync.Mutex
	table rpcbind.Table
}

func (d *daemon) ServeRPC(ctx context.Context, req *transport.Request, resp *transport.Response) {
	const set, unset = 1, 2 // RFC 1833 Section 2.1
	d.mu.Lock()
	defer d.mu.Unlock()
	if req.Proc != set && req.Proc != unset {
		d.table.ServeRPC(ctx, req, resp)
		return
	}
	x := xdr.NewDecoder(req.Args)
	e := rpcbind.Entry{Prog: x.Uint32(), Vers: x.Uint32(), Netid: x.String(99), Addr: x.String(99)}
	at := -1
	for i, have := range d.table.Entries {
		if have.Prog == e.Prog && have.Netid == e.Netid {
			at = i
		}
	}
	resp.Results = xdr.AppendBool(resp.Results, (at < 0) == (req.Proc == set))
	switch {
	case at < 0 && req.Proc == set:
		d.table.Entries = append(d.table.Entries, e)
	case at >= 0 && req.Proc == unset:
		d.table.Entries = append(d.table.Entries[:at], d.table.Entries[at+1:]...)
	}
}

// count returns the entries of a netid.
func (d *daemon) count(netid string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.table.Entries {
		if e.Netid == netid {
			n++
		}
	}
	return n
}

// TestRegister: a service announces itself, finds its place taken by one that lives and
// takes that of one that does not, and withdraws at its end.
func TestRegister(t *testing.T) {
	d := new(daemon)
	name := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	rs := &transport.Server{Handler: d}
	go rs.ServeStream(l)
	defer rs.Close()
	old, oldTime := rpcbind.LocalSockets, registerTime
	rpcbind.LocalSockets, registerTime = []string{name}, time.Minute // a machine may stand still
	defer func() { rpcbind.LocalSockets, registerTime = old, oldTime }()

	cfg := &serviceConfig{
		exports: one("/x"), memory: true, rdma: "127.0.0.1:0", mount: "127.0.0.1:0",
		register: true, config: new(transport.Config),
	}
	first, err := newService(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if d.count(rpcbind.NetRDMA) != 2 || d.count(rpcbind.NetTCP) != 1 {
		t.Errorf("registered: %+v", d.table.Entries)
	}
	if _, err := newService(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "another NFS server is registered") {
		t.Errorf("a second service: %v", err)
	}
	if d.count(rpcbind.NetRDMA) != 2 {
		t.Error("the second service has withdrawn the first")
	}
	first.named = nil // it crashes
	if err := first.stop(t.Context()); err != nil {
		t.Error(err)
	}
	second, err := newService(t.Context(), cfg)
	if err != nil {
		t.Fatal("after a crash:", err)
	}
	if err := second.stop(t.Context()); err != nil {
		t.Error(err)
	}
	if n := d.count(rpcbind.NetRDMA) + d.count(rpcbind.NetTCP); n != 0 {
		t.Errorf("%d entries left", n)
	}
	rpcbind.LocalSockets = []string{name + ".none"}
	if _, err := newService(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "is rpcbind running?") {
		t.Errorf("without rpcbind: %v", err)
	}
}
