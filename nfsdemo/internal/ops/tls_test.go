package ops_test

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stag-rdma/stag/internal/tlstest"
	"github.com/stag-rdma/stag/nfsdemo/internal/ops"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/gss"
)

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
				if err != nil {
					t.Fatal(err)
				}
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
				if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			u, err := nfsclient.ParseURL("nfs://127.0.0.1:" + strconv.Itoa(closed(t)) + "/")
			if err != nil {
				t.Fatal(err)
			}
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
			if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		u, err := nfsclient.ParseURL(tt.scheme + "://127.0.0.1:" + strconv.Itoa(closed(t)) + "/")
		if err != nil {
			t.Fatal(err)
		}
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
