package rpcbind

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// TestEntry compares the octets of an entry with the layout of RFC 1833 Section 2.1.
func TestEntry(t *testing.T) {
	e := Entry{Prog: 100003, Vers: 3, Netid: "rdma", Addr: "1.2.3.4.78.81", Owner: "0"}
	want := []byte("\x00\x01\x86\xa3\x00\x00\x00\x03\x00\x00\x00\x04rdma\x00\x00\x00\x0d1.2.3.4.78.81\x00\x00\x00\x00\x00\x00\x010\x00\x00\x00")
	got := e.appendTo(nil)
	if !bytes.Equal(got, want) {
		t.Errorf("\n%q\n%q", got, want)
	}
	d := xdr.NewDecoder(got)
	var back Entry
	if back.parse(&d); back != e || d.End() != nil {
		t.Errorf("%+v, %v", back, d.End())
	}
}

func TestUniversal(t *testing.T) {
	for _, tt := range [][2]string{
		{"192.0.2.1:20049", "192.0.2.1.78.81"},
		{"[::]:111", "::.0.111"},
		{"[::ffff:10.0.0.1]:2049", "10.0.0.1.8.1"},
		{"[fe80::1%eth0]:65535", "fe80::1.255.255"},
	} {
		if got := Universal(netip.MustParseAddrPort(tt[0])); got != tt[1] {
			t.Errorf("%s: %s, want %s", tt[0], got, tt[1])
		}
	}
	for _, bad := range []string{"", ".", "..", "1.2.3.4", "1.2.3.4.5", "1.2.3.4.256.1", "1.2.3.4.-1.1", "x.1.2", "1.2.3.4.1.1.1"} {
		if a, err := parseUniversal(bad); err == nil {
			t.Errorf("%q is %v", bad, a)
		}
	}
}

func TestNetidOf(t *testing.T) {
	v4, v6 := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, &net.TCPAddr{IP: net.IPv6unspecified}
	for _, tt := range []struct {
		a    net.Addr
		rdma bool
		want string
	}{{v4, true, "rdma"}, {v6, true, "rdma6"}, {v4, false, "tcp"}, {v6, false, "tcp6"}, {&net.UnixAddr{}, true, ""}} {
		if got := NetidOf(tt.a, tt.rdma); got != tt.want {
			t.Errorf("%v, %v: %q, want %q", tt.a, tt.rdma, got, tt.want)
		}
	}
}

// rpcbindd is as much of rpcbind as the tests need: SET and UNSET by the local socket,
// no GETADDR of netids it does not know, as Linux's.
type rpcbindd struct {
	mu      sync.Mutex
	entries []Entry
	old     bool // version 3 only
}

func (r *rpcbindd) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	if r.old && req.Vers > version3 {
		resp.ProgMismatch(2, version3)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	d := xdr.NewDecoder(req.Args)
	var e Entry
	switch req.Proc {
	case procSet, procUnset:
		e.parse(&d)
		at := -1
		for i := range r.entries {
			if r.entries[i].Prog == e.Prog && r.entries[i].Vers == e.Vers && r.entries[i].Netid == e.Netid {
				at = i
			}
		}
		ok := (at < 0) == (req.Proc == procSet)
		if ok && at < 0 {
			r.entries = append(r.entries, e)
		} else if ok {
			r.entries = append(r.entries[:at], r.entries[at+1:]...)
		}
		resp.Results = xdr.AppendBool(resp.Results, ok)
	case procGetAddr:
		resp.Results = xdr.AppendString(resp.Results, "")
	default:
		(&Table{Entries: r.entries}).ServeRPC(ctx, req, resp)
	}
}

// startLocal serves h on a local socket and on TCP, whose address it returns.
func startLocal(t *testing.T, h rpc.Handler) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "s")
	s := &transport.Server{Handler: h}
	var addr string
	for _, at := range [][2]string{{"unix", name}, {"tcp", "127.0.0.1:0"}} {
		l, err := net.Listen(at[0], at[1])
		if err != nil {
			t.Fatal(err)
		}
		go s.ServeStream(l)
		addr = l.Addr().String()
	}
	old := LocalSockets
	LocalSockets = []string{name + ".none", name}
	t.Cleanup(func() {
		LocalSockets = old
		s.Close()
	})
	return addr
}

func testCtx(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// TestLife registers, finds and withdraws a service, with servers of either version.
func TestLife(t *testing.T) {
	for _, old := range []bool{false, true} {
		addr := startLocal(t, &rpcbindd{old: old})
		ctx := testCtx(t)
		e := Entry{Prog: 100003, Vers: 3, Netid: NetRDMA, Addr: "0.0.0.0.78.81"}
		six := Entry{Prog: 100003, Vers: 3, Netid: NetRDMA6, Addr: "2001:db8::1.78.81"}
		if err := Register(ctx, e, six); err != nil {
			t.Fatal(err)
		}
		if err := Register(ctx, e); !errors.Is(err, ErrRefused) {
			t.Errorf("registered twice: %v", err)
		}
		for _, tt := range [][2]string{{NetRDMA, "127.0.0.1:20049"}, {NetRDMA6, "[2001:db8::1]:20049"}} {
			if got, err := LookupAt(ctx, addr, 100003, 3, tt[0]); err != nil || got != tt[1] {
				t.Errorf("%s: %s, %v", tt[0], got, err)
			}
		}
		if got, err := Registered(ctx, 100003, 3, NetRDMA6); err != nil || got.Port() != 20049 {
			t.Errorf("on the local socket: %v, %v", got, err)
		}
		if err := Unregister(ctx, e, six); err != nil {
			t.Error(err)
		}
		if _, err := LookupAt(ctx, addr, 100003, 3, NetRDMA); !errors.Is(err, ErrNotRegistered) {
			t.Errorf("after Unregister: %v", err)
		}
	}
}

// TestTable: versions, refusals, what is not its business, and octets that cannot be decoded.
func TestTable(t *testing.T) {
	next := rpc.HandlerFunc(func(_ context.Context, _ *rpc.Request, resp *rpc.Response) {
		resp.Results = append(resp.Results, 1, 2, 3, 4)
	})
	tab := &Table{Next: next, Entries: []Entry{{Prog: 7, Vers: 2, Netid: "rdma", Addr: "a"}, {Prog: 7, Vers: 3, Netid: "rdma", Addr: "b"}}}
	ask := func(vers uint32) []byte { return (&Entry{Prog: 7, Vers: vers, Netid: "rdma"}).appendTo(nil) }
	for _, tt := range []struct {
		prog, vers, proc uint32
		args             []byte
		stat             xdr.AcceptStat
		want             string
	}{
		{Program, 4, procNull, nil, xdr.Success, ""},
		{Program, 3, procGetAddr, ask(3), xdr.Success, "\x00\x00\x00\x01b\x00\x00\x00"},
		{Program, 3, procGetAddr, ask(9), xdr.Success, "\x00\x00\x00\x01a\x00\x00\x00"},
		{Program, 4, procGetVersAddr, ask(9), xdr.Success, "\x00\x00\x00\x00"},
		{Program, 3, procGetVersAddr, ask(3), xdr.ProcUnavail, ""},
		{Program, 4, procSet, ask(3), xdr.Success, "\x00\x00\x00\x00"},
		{Program, 4, procGetAddr, ask(3)[:9], xdr.GarbageArgs, ""},
		{Program, 4, procGetAddr, append(ask(3), 0, 0, 0, 0), xdr.GarbageArgs, ""},
		{Program, 4, 12, nil, xdr.ProcUnavail, ""},
		{Program, 2, procNull, nil, xdr.ProgMismatch, ""},
		{100003, 3, 0, nil, xdr.Success, "\x01\x02\x03\x04"},
	} {
		call := xdr.AppendCall(nil, &xdr.CallHeader{XID: 1, RPCVers: 2, Prog: tt.prog, Vers: tt.vers, Proc: tt.proc})
		msg, ok := rpc.ServeMessage(t.Context(), tab, nil, append(call, tt.args...), nil)
		if !ok {
			t.Fatal("no answer")
		}
		d := xdr.NewDecoder(msg)
		var h xdr.ReplyHeader
		if err := h.Parse(&d); err != nil {
			t.Fatal(err)
		}
		if h.Accept != tt.stat || string(d.Rest()) != tt.want && tt.stat == xdr.Success {
			t.Errorf("%d.%d procedure %d: %v, %q", tt.prog, tt.vers, tt.proc, h.Accept, d.Rest())
		}
	}
	msg, _ := rpc.ServeMessage(t.Context(), &Table{}, nil, xdr.AppendCall(nil, &xdr.CallHeader{XID: 1, RPCVers: 2, Prog: 5}), nil)
	d := xdr.NewDecoder(msg)
	var h xdr.ReplyHeader
	if h.Parse(&d) != nil || h.Accept != xdr.ProgUnavail {
		t.Errorf("another program without Next: %v", h.Accept)
	}
}

// TestNoRpcbind: nobody listens.
func TestNoRpcbind(t *testing.T) {
	old := LocalSockets
	defer func() { LocalSockets = old }()
	for _, names := range [][]string{nil, {filepath.Join(t.TempDir(), "none")}} {
		LocalSockets = names
		if err := Register(testCtx(t), Entry{}); err == nil {
			t.Errorf("registered with %q", names)
		}
	}
}

// TestHostileDump: a list without end, and one that cannot be decoded.
func TestHostileDump(t *testing.T) {
	e := Entry{Prog: 1, Vers: 1, Netid: "x", Addr: "y"}
	for _, n := range []int{1, 2000} {
		h := rpc.HandlerFunc(func(_ context.Context, req *rpc.Request, resp *rpc.Response) {
			if req.Proc == procGetAddr {
				resp.Results = xdr.AppendString(resp.Results, "")
				return
			}
			for range n {
				resp.Results = e.appendTo(xdr.AppendBool(resp.Results, true))
			}
		})
		addr := startLocal(t, h)
		if got, err := LookupAt(testCtx(t), addr, 9, 9, "rdma"); err == nil {
			t.Errorf("found %s in a truncated list", got)
		}
	}
}
