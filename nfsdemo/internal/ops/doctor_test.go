package ops_test

import (
	"context"
	"crypto/tls"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stag-rdma/stag/internal/tlstest"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/internal/lockd"
	"github.com/stag-rdma/stag/nfsdemo/internal/ops"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/gss"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/transport/rpcbind"
	"github.com/stag-rdma/stag/xdr"
)

// listen opens a listener for the test.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	noErr(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// port is where a listener listens.
func port(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }

// serve runs a server over RDMA or TCP, and returns its port.
func serve(t *testing.T, h rpc.Handler, cfg *transport.Config, run func(*transport.Server, net.Listener) error) int {
	t.Helper()
	l := listen(t)
	s := &transport.Server{Handler: h, Config: cfg}
	go run(s, l)
	t.Cleanup(func() { _ = s.Close() })
	return port(l)
}

var (
	rdma = (*transport.Server).Serve
	tcp  = (*transport.Server).ServeStream
)

// raw runs a server of octets.
func raw(t *testing.T, talk func(net.Conn)) int {
	t.Helper()
	l := listen(t)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				talk(c)
			}()
		}
	}()
	return port(l)
}

// replies is a server that answers every Request with this Reply.
func replies(t *testing.T, f mpa.Frame, change func([]byte)) int {
	t.Helper()
	b, err := (&mpa.Reply{Frame: f}).Append(nil)
	noErr(t, err)
	if change != nil {
		change(b)
	}
	return raw(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 100)) // the Request
		_, _ = c.Write(b)
		_, _ = c.Read(make([]byte, 100)) // until the other end is gone
	})
}

// says is a handler with one answer.
func says(stat xdr.AcceptStat) rpc.Handler {
	return rpc.HandlerFunc(func(_ context.Context, _ *rpc.Request, resp *rpc.Response) {
		if resp.Stat = stat; stat == xdr.ProgMismatch {
			resp.ProgMismatch(4, 4)
		}
	})
}

// good is an NFS server with one export, for some clients.
func good(t *testing.T, allow ...string) rpc.Handler {
	t.Helper()
	e := server.Export{Path: "/srv/data", FS: mem.New(nil), Squash: server.SquashNone}
	for _, a := range allow {
		e.Clients = append(e.Clients, server.Client{Nets: []netip.Prefix{netip.MustParsePrefix(a)}, Squash: server.SquashNone})
	}
	s, err := server.New(&server.Config{Exports: []server.Export{e}})
	noErr(t, err)
	return s
}

// vanished is an NFS server whose export is away.
func vanished(t *testing.T) rpc.Handler {
	t.Helper()
	s, err := server.New(&server.Config{Exports: []server.Export{{Path: "/srv/data"}}})
	noErr(t, err)
	return s
}

// closed is a port at which nobody listens.
func closed(t *testing.T) int {
	t.Helper()
	l := listen(t)
	_ = l.Close()
	return port(l)
}

// TestServers: each kind of broken server is told from the others, by the first check that meets it, with
// a fix.
func TestServers(t *testing.T) {
	unheard := func(c net.Conn) { _, _ = c.Read(make([]byte, 100)); <-t.Context().Done() }
	nfs := good(t)
	works := serve(t, nfs, nil, rdma)
	mount := serve(t, nfs, nil, tcp)
	for _, tt := range []struct {
		name        string
		port, mount int
		path        string
		check       string // that fails, or warns
		state       ops.State
		detail, fix string
	}{
		{"works", works, mount, "/srv/data", "files", ops.OK, "/srv/data can be read over RDMA", ""},
		{"no path", works, mount, "/", "export", ops.OK, "/srv/data can be mounted", ""},
		{"closed", closed(t), mount, "/", "port", ops.Failed, "nor is there an NFS server over TCP: it is stopped", "systemctl start nfsdemo"},
		{"silent", raw(t, unheard), mount, "/", "start-up", ops.Failed, "does not answer the MPA start-up within", "usually 20049"},
		{"hangs up", raw(t, func(net.Conn) {}), mount, "/", "start-up", ops.Failed, "hangs up during the MPA start-up", "usually 20049"},
		{"SSH", raw(t, func(c net.Conn) { _, _ = c.Write([]byte("SSH-2.0-sshd\r\n")); unheard(c) }), mount, "/", "start-up", ops.Failed, `it answers "SSH-2.0-sshd"`, "usually 20049"},
		{"NFS over TCP", mount, mount, "/", "start-up", ops.Failed, "is NFS over TCP, not RDMA", "-o proto=tcp"},
		{"MOUNT over TCP", serve(t, says(xdr.ProgUnavail), nil, tcp), mount, "/", "start-up", ops.Failed, "may be the port of MOUNT", "usually 20049"},
		{"refuses", serve(t, good(t), &transport.Config{Limits: transport.Limits{Allow: func(net.Addr) bool { return false }}}, rdma), mount, "/", "start-up", ops.Failed, "refuses the connection", "--allow"},
		{"revision", replies(t, mpa.Frame{Rev: 1}, func(b []byte) { b[17] = 7 }), mount, "/", "start-up", ops.Failed, "revision 7", "revision 1 of MPA"},
		{"revision 2", replies(t, mpa.Frame{Rev: 2}, nil), mount, "/", "start-up", ops.Failed, "with revision 2", "revision 1 of MPA"},
		{"markers", replies(t, mpa.Frame{Rev: 1, Markers: true}, nil), mount, "/", "start-up", ops.Failed, "asks for MPA markers", "switch MPA markers off"},
		{"CRC", serve(t, nfs, &transport.Config{Startup: transport.Startup{CRC: transport.CRCOn}}, rdma), mount, "/", "start-up", ops.Warning, "switches CRC on", "--crc peer"},
		{"no RPC", replies(t, mpa.Frame{Rev: 1}, nil), mount, "/", "RPC", ops.Failed, "", "see the log"},
		{"another program", serve(t, says(xdr.ProgUnavail), nil, rdma), mount, "/", "RPC", ops.Failed, "does not serve NFS", "usually 20049"},
		{"another version", serve(t, says(xdr.ProgMismatch), nil, rdma), mount, "/", "RPC", ops.Failed, "NFS versions 4 to 4, not 3", "vers=4.1"},
		{"away", serve(t, says(xdr.SystemErr), nil, rdma), mount, "/", "RPC", ops.Failed, "out of order", "behind the proxy"},
		{"no MOUNT", works, closed(t), "/", "MOUNT", ops.Failed, "nobody listens on", "mountport=N"},
		{"not MOUNT", works, serve(t, says(xdr.ProgUnavail), nil, tcp), "/", "MOUNT", ops.Failed, "is not MOUNT version 3", "mountport=N"},
		{"no export", works, mount, "/none", "export", ops.Failed, "no export /none: the server exports /srv/data", "name one of the exports"},
		{"not for us", works, serve(t, good(t, "192.0.2.0/24"), nil, tcp), "/srv/data", "export", ops.Failed, "refuses /srv/data to this machine (MNT3ERR_ACCES)", "admit this machine"},
		{"export away", works, serve(t, vanished(t), nil, tcp), "/srv/data", "export", ops.Failed, "has the export /srv/data, but what it serves there is away (MNT3ERR_IO)", "look after its disk"},
		{"not for us over RDMA", serve(t, good(t, "192.0.2.0/24"), nil, rdma), mount, "/srv/data", "files", ops.Failed, "", "log of the server"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u, err := nfsclient.ParseURL("nfs+rdma://127.0.0.1:" + strconv.Itoa(tt.port) + tt.path + "?mountport=" + strconv.Itoa(tt.mount))
			noErr(t, err)
			timeout := 30 * time.Second
			if tt.name == "silent" || tt.name == "SSH" || tt.name == "no RPC" {
				timeout = time.Second // it is waited for
			}
			report := ops.Run(t.Context(), ops.Config{URL: u, Timeout: timeout})
			var found bool
			for _, r := range report.Results {
				if r.Check == tt.check {
					found = true
					if r.State != tt.state || !strings.Contains(r.Detail, tt.detail) || !strings.Contains(r.Fix, tt.fix) || (r.Fix == "") != (r.State == ops.OK) {
						t.Errorf("%+v", r)
					}
				} else if r.State == ops.Failed {
					t.Errorf("%+v", r)
				}
				if tt.state == ops.Failed && found && r.Check != tt.check && r.State != ops.Skipped {
					t.Errorf("after a failure: %+v", r)
				}
			}
			if !found {
				t.Errorf("%+v", report.Results)
			}
		})
	}
}

// TestAnotherServer: where nobody listens for RDMA, but rpcbind knows an NFS server, that is said.
func TestAnotherServer(t *testing.T) {
	other := serve(t, good(t), nil, tcp)
	at := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(other))
	table := &rpcbind.Table{Entries: []rpcbind.Entry{{Prog: nfs3.Program, Vers: nfs3.Version, Netid: rpcbind.NetTCP, Addr: rpcbind.Universal(at)}}}
	u, err := nfsclient.ParseURL("nfs+rdma://127.0.0.1:" + strconv.Itoa(closed(t)) + "/")
	noErr(t, err)
	r := ops.Run(t.Context(), ops.Config{URL: u, Rpcbind: serve(t, table, nil, tcp)}).Results[1]
	if r.State != ops.Failed || !strings.HasSuffix(r.Detail, "but an NFS server answers over TCP on port "+strconv.Itoa(other)) || !strings.Contains(r.Fix, "port="+strconv.Itoa(other)) {
		t.Errorf("%+v", r)
	}
}

// TestRpcbind: a mount has locks if rpcbind names a lock manager; one that says nothing, as behind a firewall, leaves time to
// try the usual port of MOUNT.
func TestRpcbind(t *testing.T) {
	h := good(t)
	at, mount := serve(t, h, nil, rdma), serve(t, h, nil, tcp)
	ask := func(rpcbind int) (mountd ops.Result, locks bool) {
		t.Helper()
		u, err := nfsclient.ParseURL("nfs+rdma://127.0.0.1:" + strconv.Itoa(at) + "/")
		noErr(t, err)
		f := ops.Run(t.Context(), ops.Config{URL: u, Rpcbind: rpcbind})
		return f.Results[4], f.Locks
	}
	addr := rpcbind.Universal(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(mount)))
	all := []rpcbind.Entry{
		{Prog: mount3.Program, Vers: mount3.Version, Netid: rpcbind.NetTCP, Addr: addr},
		{Prog: lockd.NLMProgram, Vers: lockd.Version4, Netid: rpcbind.NetTCP, Addr: addr},
	}
	for n := 1; n <= len(all); n++ {
		r, locks := ask(serve(t, &rpcbind.Table{Entries: all[:n]}, nil, tcp))
		if r.State != ops.OK || !strings.HasSuffix(r.Detail, "says rpcbind") || locks != (n == 2) {
			t.Errorf("%d of %v: locks %v, %+v", n, all, locks, r)
		}
	}
	silent := raw(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	if r, locks := ask(silent); locks || !strings.Contains(r.Detail, "20048, the usual one") || strings.Contains(r.Detail, "no answer") {
		t.Errorf("a silent rpcbind: locks %v, %+v", locks, r)
	}
}

// TestMachine: what a machine lacks is said in the words of its distribution.
func TestMachine(t *testing.T) {
	all := map[string]string{
		"proc/sys/kernel/osrelease":           "6.1.0-37-amd64\n",
		"etc/os-release":                      "NAME=\"x\"\nID=debian\n",
		"sys/class/infiniband/siw0/node_type": "4: RNIC\n",
		"lib/modules/6.1.0-37-amd64/modules.dep": "kernel/drivers/infiniband/sw/siw/siw.ko.xz: kernel/x.ko\n" +
			"kernel/net/sunrpc/xprtrdma/rpcrdma.ko: kernel/y.ko\n",
		"sbin/mount.nfs": "", "usr/bin/rdma": "",
	}
	dep := "lib/modules/6.1.0-37-amd64/modules.dep"
	for _, tt := range []struct {
		name   string
		change map[string]string // "-": is missing
		failed string            // checks
		fix    string            // in the first of them
	}{
		{"complete", nil, "", ""},
		{"siw is loaded", map[string]string{dep: "kernel/net/sunrpc/xprtrdma/rpcrdma.ko:\n", "sys/module/siw/refcnt": "0"}, "", ""},
		{"built in", map[string]string{dep: "-", "lib/modules/6.1.0-37-amd64/modules.builtin": "kernel/a/siw.ko\nkernel/b/rpcrdma.ko\n"}, "", ""},
		{"Debian's kernels", map[string]string{dep: "kernel/net/sunrpc/xprtrdma/rpcrdma.ko:\n"}, "siw", "sh /usr/share/nfsdemo/build-siw"},
		{"Ubuntu", map[string]string{dep: "-", "etc/os-release": "ID=ubuntu\nID_LIKE=debian\n"}, "siw rpcrdma", "apt install linux-modules-extra-6.1.0-37-amd64"},
		{"Mint", map[string]string{dep: "-", "etc/os-release": "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n"}, "siw rpcrdma", "apt install linux-modules-extra-6.1.0-37-amd64"},
		{"Fedora", map[string]string{dep: "-", "etc/os-release": "ID=fedora\n"}, "siw rpcrdma", "dnf install kernel-modules-6.1.0-37-amd64 kernel-modules-extra-6.1.0-37-amd64"},
		{"another one", map[string]string{"sbin/mount.nfs": "-", "etc/os-release": "ID=arch\n"}, "mount.nfs", "Debian: apt install nfs-common; Ubuntu: apt install nfs-common; Fedora: dnf install nfs-utils"},
		{"another device", map[string]string{"sys/class/infiniband/siw0/node_type": "1: CA\n"}, "device", "rdma link add siw0 type siw netdev eth0"},
		{"no rdma(8)", map[string]string{"sys/class/infiniband/siw0/node_type": "-", "usr/bin/rdma": "-"}, "device", "apt install iproute2"},
		{"not Linux", map[string]string{"proc/sys/kernel/osrelease": "-"}, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			files := make(map[string]string)
			maps.Copy(files, all)
			maps.Copy(files, tt.change)
			for name, text := range files {
				if text == "-" {
					continue
				}
				noErr(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
				noErr(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
			}
			u, err := nfsclient.ParseURL("nfs+rdma://127.0.0.1:" + strconv.Itoa(closed(t)) + "/")
			noErr(t, err)
			var failed []string
			fix := ""
			for _, r := range ops.Run(t.Context(), ops.Config{URL: u, Root: root}).Results {
				if r.Local && r.State == ops.Failed {
					failed = append(failed, r.Check)
					if fix == "" {
						fix = r.Fix
					}
				}
			}
			if got := strings.Join(failed, " "); got != tt.failed || !strings.Contains(fix, tt.fix) {
				t.Errorf("%q: %s", got, fix)
			}
		})
	}
}

// TestTLS: why a handshake fails, over TCP and below MPA, and what to do.
func TestTLS(t *testing.T) {
	servers, clients := tlstest.New(t, "servers"), tlstest.New(t, "clients")
	past, later := time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	with := func(c tls.Certificate, auth tls.ClientAuthType) *transport.Config {
		return &transport.Config{TLS: transport.TLS{Config: &tls.Config{Certificates: []tls.Certificate{c}, ClientCAs: clients.Pool(), ClientAuth: auth}}}
	}
	nfs := good(t)
	mount := serve(t, nfs, nil, tcp)
	mine := &tls.Config{RootCAs: servers.Pool()}
	for _, tt := range []struct {
		name        string
		server      *transport.Config
		host        string
		client      *tls.Config
		check       string // that fails, "" for none
		detail, fix string // of the check TLS, of that which fails
	}{
		{"works", with(servers.Issue("nfs.test", later), tls.NoClientCert), "127.0.0.1", mine, "", "the certificate of CN=nfs.test is valid until 2", ""},
		{"a wrong name", with(servers.Issue("nfs.test", later), tls.NoClientCert), "localhost", mine, "TLS", "valid for nfs.test, not localhost", "subjectAltName"},
		{"expired", with(servers.Issue("nfs.test", past), tls.NoClientCert), "127.0.0.1", mine, "TLS", "expired", "renew the certificate"},
		{"an unknown CA", with(servers.Issue("nfs.test", later), tls.NoClientCert), "127.0.0.1", &tls.Config{RootCAs: clients.Pool()}, "TLS", "unknown authority", "is this the file of the CA"},
		{"a certificate is wanted", with(servers.Issue("nfs.test", later), tls.RequireAndVerifyClientCert), "127.0.0.1", mine, "TLS", "certificate required", "wants a certificate of this one"},
		{"no TLS", nil, "127.0.0.1", mine, "TLS", "", ""},
	} {
		for scheme, run := range map[string]func(*transport.Server, net.Listener) error{"nfs": tcp, "nfs+rdma+tls": rdma} {
			t.Run(tt.name+", "+scheme, func(t *testing.T) {
				at := serve(t, nfs, tt.server, run)
				u, err := nfsclient.ParseURL(scheme + "://" + tt.host + ":" + strconv.Itoa(at) + "/srv/data?mountport=" + strconv.Itoa(mount))
				noErr(t, err)
				failed := ""
				for _, r := range ops.Run(t.Context(), ops.Config{URL: u, TLS: tt.client, Timeout: 30 * time.Second}).Results {
					if r.Check == "TLS" && (!strings.Contains(r.Detail, tt.detail) || !strings.Contains(r.Fix, tt.fix) || (r.Fix == "") != (tt.check == "")) {
						t.Errorf("%+v", r)
					}
					if r.Check == "TLS" && tt.server == nil && scheme == "nfs" && !strings.Contains(r.Fix, "tlshd") {
						t.Errorf("%+v", r)
					}
					if r.State == ops.Failed {
						failed += r.Check
					}
				}
				if failed != tt.check {
					t.Errorf("%q fails, want %q", failed, tt.check)
				}
			})
		}
	}
}

// TestTLSMachine: what a machine lacks for a mount with xprtsec=tls.
func TestTLSMachine(t *testing.T) {
	for _, tt := range []struct {
		name, release, comm, conf string
		want                      string // checks that fail or warn
		fix                       string // of the first of them
	}{
		{"complete", "6.12.1-amd64", "tlshd", "[authenticate.client]\nx509.truststore=/ca.pem\n", "", ""},
		{"an old kernel", "6.1.0-37-amd64", "tlshd", "x509.truststore=/ca.pem\n", "kernel", "6.5 or later"},
		{"a newer one", "7.0.0", "tlshd", "x509.truststore=/ca.pem\n", "", ""},
		{"no tlshd", "6.12.1-amd64", "bash", "x509.truststore=/ca.pem\n", "tlshd", "apt install ktls-utils"},
		{"no CA", "6.12.1-amd64", "tlshd", "#x509.truststore=/ca.pem\n", "tlshd", "x509.truststore"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			for name, text := range map[string]string{
				"proc/sys/kernel/osrelease": tt.release + "\n", "proc/7/comm": tt.comm + "\n", "etc/tlshd.conf": tt.conf, "etc/os-release": "ID=debian\n",
				"lib/modules/" + tt.release + "/modules.dep": "kernel/net/tls/tls.ko:\n", "sbin/mount.nfs": "",
			} {
				noErr(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
				noErr(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
			}
			u, err := nfsclient.ParseURL("nfs://127.0.0.1:" + strconv.Itoa(closed(t)) + "/")
			noErr(t, err)
			var lacks []string
			fix := ""
			for _, r := range ops.Run(t.Context(), ops.Config{URL: u, TLS: new(tls.Config), Root: root}).Results {
				if r.Local && r.State != ops.OK {
					lacks = append(lacks, r.Check)
					if fix == "" {
						fix = r.Fix
					}
				}
			}
			if got := strings.Join(lacks, " "); got != tt.want || !strings.Contains(fix, tt.fix) {
				t.Errorf("%q: %s", got, fix)
			}
		})
	}
}

// TestKerberosMachine: what a machine lacks for a mount with sec=krb5p, over TCP and RDMA.
func TestKerberosMachine(t *testing.T) {
	for _, tt := range []struct{ scheme, comm, want string }{
		{"nfs", "rpc.gssd", ""}, {"nfs", "bash", "rpc.gssd"}, {"nfs+rdma", "bash", "siw device rpcrdma rpc.gssd"},
	} {
		root := t.TempDir()
		for name, text := range map[string]string{"proc/sys/kernel/osrelease": "6.1.0\n", "proc/7/comm": tt.comm + "\n", "sbin/mount.nfs": ""} {
			noErr(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
			noErr(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
		}
		u, err := nfsclient.ParseURL(tt.scheme + "://127.0.0.1:" + strconv.Itoa(closed(t)) + "/")
		noErr(t, err)
		var lacks []string
		for _, r := range ops.Run(t.Context(), ops.Config{URL: u, GSS: gss.NewClient(gss.Privacy, nil), Root: root}).Results {
			if r.Local && r.State != ops.OK {
				lacks = append(lacks, r.Check)
			}
			if r.Check == "rpc.gssd" && r.State == ops.Failed && !strings.Contains(r.Fix, "systemctl start rpc-gssd") {
				t.Errorf("%+v", r)
			}
		}
		if got := strings.Join(lacks, " "); got != tt.want {
			t.Errorf("%s, %s: %q, want %q", tt.scheme, tt.comm, got, tt.want)
		}
	}
}

// noErr ends the test if err is an error.
func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
