package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/internal/exports"
	"github.com/stag-rdma/stag/nfsdemo/internal/lockd"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/transport/rpcbind"
	"github.com/stag-rdma/stag/xdr"
)

// daemon is an rpcbind that takes registrations.
type daemon struct {
	mu    sync.Mutex
	table rpcbind.Table
}

func (d *daemon) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
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
		if have.Prog == e.Prog && have.Vers == e.Vers && have.Netid == e.Netid {
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

// localRPCBind runs an rpcbind for the services of this process.
func localRPCBind(t *testing.T) *daemon {
	d := lateRPCBind(t)
	d.start(t)
	return d
}

// lateRPCBind is one that is not running yet.
func lateRPCBind(t *testing.T) *daemon {
	d := new(daemon)
	old, oldTime := rpcbind.LocalSockets, registerTime
	rpcbind.LocalSockets, registerTime = []string{filepath.Join(t.TempDir(), "s")}, time.Minute // a machine may stand still
	t.Cleanup(func() { rpcbind.LocalSockets, registerTime = old, oldTime })
	return d
}

// start runs it, with an empty table.
func (d *daemon) start(t *testing.T) {
	l := must(net.Listen("unix", rpcbind.LocalSockets[0]))(t)
	rs := &transport.Server{Handler: d}
	go rs.ServeStream(l)
	t.Cleanup(func() { rs.Close() })
}

// lose forgets all entries, and has left instead.
func (d *daemon) lose(left ...rpcbind.Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.table.Entries = left
}

// spoken are the lines of a log.
type spoken chan string

func (c spoken) Write(b []byte) (int, error) {
	c <- string(b)
	return len(b), nil
}

// await waits for a line.
func (c spoken) await(text string) {
	for line := range c {
		if strings.Contains(line, text) {
			return
		}
	}
}

// TestRegisterAgain: a service is registered with an rpcbind that comes late, and again with one that has lost its table, but
// not in the place of another server.
func TestRegisterAgain(t *testing.T) {
	d := lateRPCBind(t)
	said := make(spoken, 100)
	s := must(newService(t.Context(), &serviceConfig{
		exports: one(t.TempDir()), state: t.TempDir(), rdma: "127.0.0.1:0", mount: "127.0.0.1:0", register: true, locks: locksAuto,
		config: new(transport.Config), log: slog.New(slog.NewTextHandler(said, nil)),
	}))(t)
	defer s.stop(t.Context()) //nolint:errcheck // a test
	said.await("backend lost")
	if got := s.report().Problems; len(got) != 1 || !strings.Contains(got[0].Error, "is rpcbind running?") {
		t.Errorf("problems without rpcbind: %+v", got)
	}
	if got := s.locks.String(); !strings.Contains(got, "off: ") || !strings.Contains(got, "is rpcbind running?") {
		t.Error("locks", got)
	}
	d.start(t)
	s.binding.look()
	said.await("backend back")
	if got := s.locks.String(); got != locksOn {
		t.Error("locks", got)
	}
	for range 2 {
		d.lose()
		s.binding.look()
		said.await("registered again")
		if got, want := d.count(rpcbind.NetRDMA)+d.count(rpcbind.NetTCP)+d.count(rpcbind.NetUDP), len(s.table.Entries); got != want {
			t.Errorf("%d entries, want %d", got, want)
		}
	}
	if got := s.report().Problems; len(got) > 0 || len(said) > 0 {
		t.Errorf("problems: %+v, said: %s", got, <-said)
	}
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t) // of another server, which is faster than any look that may be under way
	defer l.Close()                                //nolint:errcheck // a test
	other := s.table.Entries[0]
	other.Addr = universal(l.Addr())
	d.lose(other)
	if err := s.registerAgain(t.Context()); err == nil || !strings.Contains(err.Error(), "another NFS server is registered") {
		t.Errorf("beside another: %v", err)
	}
}

// TestRegister: a service announces itself, finds its place taken by one that lives and
// takes that of one that does not, and withdraws at its end.
func TestRegister(t *testing.T) {
	d := localRPCBind(t)
	cfg := &serviceConfig{
		exports: one("/x"), memory: true, rdma: "127.0.0.1:0", mount: "127.0.0.1:0",
		register: true, config: new(transport.Config),
	}
	first := must(newService(t.Context(), cfg))(t)
	if d.count(rpcbind.NetRDMA) != 3 || d.count(rpcbind.NetTCP) != 3 || d.count(rpcbind.NetUDP) != 3 {
		t.Errorf("registered: %+v", d.table.Entries)
	}
	if _, err := newService(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "another NFS server is registered") {
		t.Errorf("a second service: %v", err)
	}
	if d.count(rpcbind.NetRDMA) != 3 {
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
}

// TestLocks: the lock manager is where rpcbind says, and gives way to another one, or replaces one that has crashed.
func TestLocks(t *testing.T) {
	d := localRPCBind(t)
	state := t.TempDir()
	cfg := &serviceConfig{
		exports: one(t.TempDir()), state: state, rdma: "127.0.0.1:0", mount: "127.0.0.1:0",
		register: true, locks: locksAuto, config: new(transport.Config), status: "127.0.0.1:0",
	}
	s := must(newService(t.Context(), cfg))(t)
	if got := s.locks.String(); got != locksOn {
		t.Fatalf("locks %s", got)
	}
	if ready := string(get(t, "http://"+addrOf(s.statusL)+"/readyz", http.StatusOK)); ready != "ready, with locks\n" {
		t.Error(ready)
	}
	if tcp, udp := d.count(rpcbind.NetTCP), d.count(rpcbind.NetUDP); tcp != 9 || udp != 9 {
		t.Errorf("%d entries for TCP, %d for UDP", tcp, udp)
	}
	if got := s.srv.Config.Limits.Memory; got != transport.DefaultMemory/8*7 {
		t.Errorf("%d octets are for calls", got)
	}
	metrics := string(get(t, "http://"+addrOf(s.statusL)+"/metrics", http.StatusOK))
	for name, help := range locksHelp {
		if !strings.Contains(metrics, "# HELP nfsdemo_"+name+" "+help+"\n") && !strings.Contains(metrics, "# HELP nfsdemo_"+name+"_total "+help+"\n") {
			t.Errorf("no metric %s", name)
		}
	}
	if line := mountLine(&readyJSON{Export: "/d", RDMA: "1.2.3.4:1", Mount: "1.2.3.4:2", Locks: s.locks.String()}, &server.Export{}); strings.Contains(line, "nolock") {
		t.Error(line)
	}
	if _, err := os.Stat(filepath.Join(state, "locks")); err != nil {
		t.Error(err)
	}
	c := must(transport.DialStream(t.Context(), "tcp", s.mount.Addr().String(), nil))(t)
	defer c.Close() //nolint:errcheck // a test
	null := func(prog, vers uint32) error {
		var reply rpc.Reply
		if err := c.Do(t.Context(), &rpc.Call{Prog: prog, Vers: vers}, &reply); err != nil {
			return err
		}
		return reply.Header.Err()
	}
	if err := errors.Join(null(lockd.NLMProgram, 4), null(lockd.NLMProgram, 1), null(lockd.NSMProgram, 1)); err != nil {
		t.Error(err)
	}
	if null(nfs3.Program, 3) == nil {
		t.Error("NFS at the port of MOUNT")
	}
	u := must(net.Dial("udp", s.udp.LocalAddr().String()))(t)
	defer u.Close() //nolint:errcheck // a test
	must(u.Write(xdr.AppendCall(nil, &xdr.CallHeader{XID: 9, RPCVers: 2, Prog: lockd.NLMProgram, Vers: 4})))(t)
	_ = u.SetReadDeadline(time.Now().Add(time.Minute))
	buf := make([]byte, 100)
	n, err := u.Read(buf)
	var h xdr.ReplyHeader
	x := xdr.NewDecoder(buf[:n])
	if perr := h.Parse(&x); err != nil || perr != nil || h.Err() != nil || h.XID != 9 {
		t.Errorf("over UDP: %v, %v, %+v", err, perr, h)
	}

	other := *cfg
	other.register = false
	without := must(newService(t.Context(), &other))(t)
	if got := without.locks.String(); !strings.Contains(got, "off: ") || !strings.Contains(got, "--register") {
		t.Errorf("without rpcbind: locks %s", got)
	}
	if got := without.report().Problems; len(got) > 0 {
		t.Errorf("locks that nobody wants are a problem: %+v", got)
	}
	if err := without.stop(t.Context()); err != nil {
		t.Error(err)
	}

	s.named = nil // it crashes
	if err := s.stop(t.Context()); err != nil {
		t.Error(err)
	}
	if s, err = newService(t.Context(), cfg); err != nil {
		t.Fatal("after a crash:", err)
	}
	if got := s.locks.String(); got != locksOn {
		t.Errorf("after a crash: locks %s", got)
	}
	if err := s.stop(t.Context()); err != nil {
		t.Error(err)
	}
	if n := d.count(rpcbind.NetTCP) + d.count(rpcbind.NetUDP); n != 0 {
		t.Errorf("%d entries left", n)
	}

	p, err := net.ListenPacket("udp", "127.0.0.1:0") // as the kernel's
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close() //nolint:errcheck // a test
	kernel := rpcbind.Entry{Prog: lockd.NLMProgram, Vers: 4, Netid: rpcbind.NetUDP, Addr: rpcbind.Universal(p.LocalAddr().(*net.UDPAddr).AddrPort())}
	noErr(t, rpcbind.Register(t.Context(), kernel))
	if s, err = newService(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if got := s.locks.String(); !strings.Contains(got, "another lock manager") {
		t.Errorf("beside another: locks %s", got)
	}
	if tcp, udp := d.count(rpcbind.NetTCP), d.count(rpcbind.NetUDP); tcp != 5 || udp != 6 {
		t.Errorf("beside another: %d entries for TCP, %d for UDP", tcp, udp)
	}
	ready := string(get(t, "http://"+addrOf(s.statusL)+"/readyz", http.StatusOK))
	if got := s.report().Problems; len(got) != 1 || !strings.HasPrefix(got[0].Error, "locks are off: rpcbind knows another") || !strings.HasPrefix(ready, "ready, without locks: rpcbind knows") {
		t.Errorf("locks are wanted, and off: problems %+v, %s", got, ready)
	}
	if err := s.stop(t.Context()); err != nil {
		t.Error(err)
	}
	must := *cfg
	must.locks = locksOn
	if _, err := newService(t.Context(), &must); err == nil || !strings.Contains(err.Error(), "rpc.statd") {
		t.Errorf("--locks on: %v", err)
	}
}

// TestMountUDP: MOUNT over UDP answers with what a datagram may have, those whom the administrator has named.
func TestMountUDP(t *testing.T) {
	localRPCBind(t)
	allow := must(transport.AllowNets("127.0.0.0/8", "192.0.2.0/24"))(t)
	cfg := &serviceConfig{exports: one("/x"), memory: true, mount: "127.0.0.1:0", register: true, config: new(transport.Config)}
	cfg.exports[0].Clients = []server.Client{{Nets: []netip.Prefix{netip.MustParsePrefix("192.0.2.7/32"), netip.MustParsePrefix("127.0.0.0/8")}}}
	for i := range 100 { // of which the list is long
		e := exports.Defaults()
		e.Path = fmt.Sprintf("/%d/%s", i, strings.Repeat("x", 100))
		cfg.exports = append(cfg.exports, e)
	}
	s := must(newService(t.Context(), cfg))(t)
	for addr, want := range map[string]bool{"127.0.0.1": true, "::1": true, "192.0.2.7": true, "::ffff:192.0.2.7": true, "192.0.2.8": false, "2001:db8::1": false} {
		from := &net.UDPAddr{IP: net.ParseIP(addr), Port: 700}
		if got := s.answersUDP(from, mount3.Program); got != want {
			t.Errorf("%s is answered: %v", addr, got)
		}
	}
	u := must(net.Dial("udp", s.udp.LocalAddr().String()))(t)
	defer u.Close() //nolint:errcheck // a test
	prog := uint32(nfs3.Program)
	ask := func(vers uint32, proc mount3.Proc, args []byte) (xdr.ReplyHeader, xdr.Decoder) {
		must(u.Write(append(xdr.AppendCall(nil, &xdr.CallHeader{XID: 9, RPCVers: 2, Prog: prog, Vers: vers, Proc: uint32(proc)}), args...)))(t)
		buf := make([]byte, 64<<10)
		var h xdr.ReplyHeader
		x := xdr.NewDecoder(buf[:must(u.Read(buf))(t)])
		noErr(t, h.Parse(&x))
		return h, x
	}
	if h, _ := ask(3, 0, nil); h.Accept != xdr.ProgUnavail {
		t.Errorf("NFS: %+v", h)
	}
	prog = mount3.Program
	path := mount3.PathArgs{Path: "/x"}
	if h, x := ask(3, mount3.ProcMnt, xdr.Encode(nil, &path)); h.Err() != nil || x.Uint32() != 0 {
		t.Errorf("MNT: %+v", h)
	}
	if h, x := ask(1, mount3.ProcMnt, xdr.Encode(nil, &path)); h.Err() != nil || x.Uint32() != uint32(mount3.ErrInval) || x.Len() != 0 {
		t.Errorf("MNT version 1: %+v", h)
	}
	if h, x := ask(2, mount3.ProcDump, nil); h.Err() != nil || !x.Bool() || x.String(99) != "127.0.0.1" || x.String(99) != "/x" {
		t.Errorf("DUMP: %+v", h)
	}
	if h, _ := ask(3, mount3.ProcExport, nil); h.Accept != xdr.SystemErr {
		t.Errorf("EXPORT: %+v, want no part of it", h)
	}
	noErr(t, s.stop(t.Context()))

	open := *cfg
	open.exports, open.config = one("/x"), &transport.Config{}
	for _, open.config.Limits.Allow = range []func(net.Addr) bool{nil, allow} {
		s := must(newService(t.Context(), &open))(t)
		if s.answersUDP(&net.UDPAddr{IP: net.IPv4(192, 0, 2, 8), Port: 700}, mount3.Program) != (open.config.Limits.Allow != nil) {
			t.Error("an export to everybody names nobody; --allow does")
		}
		noErr(t, s.stop(t.Context()))
	}

	// Nor does it get an answer, which would be at the socket before what is sent there last. Four readers that have taken five
	// datagrams are done with one.
	refused := must(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	defer refused.Close() //nolint:errcheck // a test
	asked := make(chan bool, 5)
	open.config.Limits.Allow = func(from net.Addr) bool {
		if from.String() != refused.LocalAddr().String() {
			return true
		}
		asked <- true
		return false
	}
	s = must(newService(t.Context(), &open))(t)
	for range cap(asked) {
		must(refused.WriteTo(xdr.AppendCall(nil, &xdr.CallHeader{XID: 9, RPCVers: 2, Prog: mount3.Program, Vers: 3}), s.udp.LocalAddr()))(t)
	}
	for range cap(asked) {
		<-asked
	}
	noErr(t, s.stop(t.Context()))
	last := must(net.Dial("udp", refused.LocalAddr().String()))(t)
	defer last.Close() //nolint:errcheck // a test
	must(last.Write([]byte("last")))(t)
	buf := make([]byte, 1024)
	if n, from, err := refused.ReadFrom(buf); err != nil || string(buf[:n]) != "last" {
		t.Errorf("%s answers one who is refused: %x, %v", from, buf[:n], err)
	}
}

// TestFaces: who listens at all addresses is found over IPv4 and IPv6.
func TestFaces(t *testing.T) {
	l := must(net.Listen("tcp", ":0"))(t)
	defer l.Close() //nolint:errcheck // a test
	if l.Addr().(*net.TCPAddr).IP.To4() != nil {
		t.Skip("no IPv6")
	}
	udp := &net.UDPAddr{IP: net.IPv6unspecified, Port: 5}
	found := make(map[string]int)
	for _, e := range slices.Concat(entries(nil, nil, l.Addr(), nil), lockEntries(l.Addr(), udp)) {
		found[e.Netid]++
		if v4 := strings.HasPrefix(e.Addr, "0.0.0.0."); v4 == strings.HasSuffix(e.Netid, "6") {
			t.Errorf("%+v", e)
		}
	}
	if found[rpcbind.NetTCP] != 9 || found[rpcbind.NetTCP6] != 9 || found[rpcbind.NetUDP] != 4 || found[rpcbind.NetUDP6] != 4 {
		t.Error(found)
	}
}
