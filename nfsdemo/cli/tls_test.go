package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/internal/tlstest"
	"github.com/stag-rdma/stag/nfsdemo/internal/exports"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// tlsWorld is a server with an export of each kind, and the files of its clients.
type tlsWorld struct {
	s               *service
	dir             string
	ca, servers     *tlstest.CA
	serverCA        string
	cert, key, mine string // of a client; the file of the CAs that the server trusts
	log             *observer.ObservedLogs
}

func newTLSWorld(t *testing.T) *tlsWorld {
	w := &tlsWorld{dir: t.TempDir(), ca: tlstest.New(t, "clients")}
	w.servers = tlstest.New(t, "servers")
	end := time.Now().Add(time.Hour)
	w.serverCA, w.mine = w.servers.File(w.dir), w.ca.File(w.dir)
	w.cert, w.key = tlstest.Files(t, w.dir, w.ca.Issue("client.test", end))
	f := tlsFiles{ca: w.mine}
	f.cert, f.key = tlstest.Files(t, w.dir, w.servers.Issue("nfs.test", end))
	var list []exports.Export
	for path, x := range map[string]server.XprtSec{"/any": 0, "/tls": server.XprtTLS, "/mtls": server.XprtMTLS, "/both": server.XprtTLS | server.XprtMTLS} {
		list = append(list, exports.Export{Export: server.Export{Path: path, XprtSec: x}})
	}
	var core zapcore.Core
	core, w.log = observer.New(zap.InfoLevel)
	w.s = started(t, &serviceConfig{
		exports: list, memory: true, tls: &serverTLS{files: f}, rdma: "127.0.0.1:0", tcp: "127.0.0.1:0", config: &transport.Config{Logger: zap.New(core)},
		push: pushConfig{dir: filepath.Join(w.dir, "logs")}, replies: "127.0.0.1:0",
	})
	return w
}

// TestXprtSec: a command reaches what its connection is good enough for; MOUNT answers all of them.
func TestXprtSec(t *testing.T) {
	w := newTLSWorld(t)
	_, tcp, _ := net.SplitHostPort(w.s.tcp.Addr().String())
	_, rdma, _ := net.SplitHostPort(w.s.rdma.Addr().String())
	withTLS := []string{"--tls-ca", w.serverCA}
	mutual := append(withTLS, "--tls-cert", w.cert, "--tls-key", w.key)
	for _, tt := range []struct {
		name, scheme, port string
		flags              []string
		may                string
	}{
		{"clear", "nfs", tcp, nil, "/any"},
		{"RDMA", "nfs+rdma", rdma, nil, "/any"},
		{"RDMA, tls", "nfs+rdma+tls", rdma, withTLS, "/any /both /tls"},
		{"RDMA, mtls", "nfs+rdma+tls", rdma, mutual, "/any /both /mtls"},
		{"tls", "nfs", tcp, withTLS, "/any /both /tls"},
		{"mtls", "nfs", tcp, mutual, "/any /both /mtls"},
	} {
		var may []string
		for _, path := range []string{"/any", "/both", "/mtls", "/tls"} {
			r := command(t.Context(), "", append([]string{"ls", "--reconnect", "0", tt.scheme + "://127.0.0.1:" + tt.port + path}, tt.flags...)...)
			switch {
			case r.status == 0:
				may = append(may, path)
			case !strings.Contains(r.stderr, "NFS3ERR_ACCES"):
				t.Errorf("%s, %s: %s", tt.name, path, r.stderr)
			}
		}
		if got := strings.Join(may, " "); got != tt.may {
			t.Errorf("%s may use %q, want %q", tt.name, got, tt.may)
		}
	}
	for say, args := range map[string][]string{
		"needs both nfs+rdma+tls:// and":         append([]string{"ls", "nfs+rdma://127.0.0.1:" + rdma + "/any"}, withTLS...),
		"(--tls-ca, Config.Transport.TLS)":       {"ls", "nfs+rdma+tls://127.0.0.1:" + rdma + "/any"},
		"does this port have TLS":                append([]string{"ls", "nfs+rdma+tls://" + clearServer(t) + "/any"}, withTLS...),
		"not localhost (use a name":              append([]string{"ls", "nfs+rdma+tls://localhost:" + rdma + "/any"}, withTLS...),
		"is this the file of the CA":             {"ls", "nfs://127.0.0.1:" + tcp + "/any", "--tls-ca", w.mine},
		"use a name or an address":               append([]string{"ls", "nfs://localhost:" + tcp + "/any"}, withTLS...),
		"--tls-cert and --tls-key need --tls-ca": {"ls", "nfs://127.0.0.1:" + tcp + "/any", "--tls-cert", w.cert, "--tls-key", w.key},
		"give both or neither":                   append([]string{"ls", "nfs://127.0.0.1:" + tcp + "/any", "--tls-cert", w.cert}, withTLS...),
		"does not offer TLS":                     append([]string{"ls", "nfs://" + clearServer(t) + "/any"}, withTLS...),
		"xprtsec=mtls needs":                     {"serve", "--memory", "--export", "/a,xprtsec=mtls", "--listen", "127.0.0.1:0", "--mount-listen", ""},
		"by certificate (tls:a) need":            {"serve", "--memory", "--export", "/a,client=tls:a", "--listen", "127.0.0.1:0", "--mount-listen", ""},
		"need --tls-cert":                        {"serve", "--memory", "--export", "/a", "--tls-client-ca", w.mine},
	} {
		if r := command(t.Context(), "", args...); r.status == 0 || !strings.Contains(r.stderr, say) {
			t.Errorf("status %d, %q, want %q", r.status, r.stderr, say)
		}
	}
}

// TestProxyTLS: a proxy listens with TLS and calls with TLS, by either transport; SIGHUP would read its files again, and its
// status is HTTPS.
func TestProxyTLS(t *testing.T) {
	w := newTLSWorld(t)
	cert, key := tlstest.Files(t, t.TempDir(), w.servers.Issue("proxy.test", time.Now().Add(time.Hour)))
	mutual := []string{"--tls-ca", w.serverCA, "--tls-cert", w.cert, "--tls-key", w.key}
	front := []string{"--listen", "127.0.0.1:0", "--status", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", w.mine}
	back := []string{"--to-ca", w.serverCA, "--to-cert", w.cert, "--to-key", w.key}
	for _, tt := range []struct{ to, port, scheme, inClear string }{
		{"nfs://" + w.s.tcp.Addr().String(), "RDMA", "nfs+rdma+tls://", "nfs+rdma://"},
		{"nfs+rdma+tls://" + w.s.rdma.Addr().String(), "TCP", "nfs://", "nfs://"},
	} {
		ports, out := startProxy(t, append(append([]string{"--to", tt.to}, front...), back...)...)
		at := ports[tt.port] + "/mtls"
		if r := command(t.Context(), "", append([]string{"ls", tt.scheme + at}, mutual...)...); r.status != 0 {
			t.Errorf("%s: %s %s", tt.to, r.stderr, out)
		}
		if r := command(t.Context(), "", "ls", "--reconnect", "0", tt.inClear+at); r.status == 0 {
			t.Errorf("%s: a call in clear is passed on", tt.to)
		}
		if r := command(t.Context(), "", "ls", "--reconnect", "0", "--tls-ca", w.serverCA, tt.scheme+at); r.status == 0 {
			t.Errorf("%s: a call without a certificate is passed on", tt.to)
		}
		web := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: w.servers.Pool()}}}
		defer web.CloseIdleConnections()
		r, err := web.Get("https://" + ports["STATUS"] + "/healthz")
		if err != nil || r.StatusCode != http.StatusOK || !strings.Contains(out.String(), "https://"+ports["STATUS"]) {
			t.Errorf("%v, %v", r, err)
		} else {
			r.Body.Close()
		}
	}
	for say, args := range map[string][]string{
		"need --to-ca":      {"--to", "nfs://127.0.0.1", "--to-cert", w.cert},
		"give both or nei":  {"--to", "nfs+rdma+tls://127.0.0.1"},
		"need --tls-cert":   {"--to", "nfs://127.0.0.1", "--tls-client-ca", w.mine},
		"and --to-ca: give": {"--to", "nfs+rdma://127.0.0.1", "--to-ca", w.mine},
	} {
		if r := command(t.Context(), "", append([]string{"proxy"}, args...)...); r.status == 0 || !strings.Contains(r.stderr, say) {
			t.Errorf("status %d, %q, want %q", r.status, r.stderr, say)
		}
	}
}

// TestTLSLogs: the connections of push logs and of logs of replies are within TLS if the calls are, so that a capture shows
// neither records nor what opens them.
func TestTLSLogs(t *testing.T) {
	w := newTLSWorld(t)
	rdma, tcp := w.s.rdma.Addr().String(), w.s.tcp.Addr().String()
	secure := []string{"--tls-ca", w.serverCA, "--tls-cert", w.cert, "--tls-key", w.key}
	for i, tt := range []struct {
		stdin string
		args  []string
		want  string // of the output
		clear bool
	}{
		{"the record\n", append([]string{"log", "append", "--push-secret", w.dir + "/a", "nfs+rdma+tls://" + rdma + "/mtls"}, secure...), "native", false},
		{"the record\n", append([]string{"log", "append", "--push-secret", w.dir + "/b", "nfs://" + tcp + "/mtls"}, secure...), "native", false},
		{"the record\n", []string{"log", "append", "--push-secret", w.dir + "/c", "nfs+rdma://" + rdma + "/any"}, "native", true},
		{"", append([]string{"mkdir", "--replies", w.dir + "/d", "nfs+rdma+tls://" + rdma + "/mtls/the record"}, secure...), "", false},
		{"", []string{"mkdir", "--replies", w.dir + "/e", "nfs+rdma://" + rdma + "/any/the record"}, "", true},
	} {
		trace := filepath.Join(w.dir, strconv.Itoa(i)+".pcapng")
		r := command(t.Context(), tt.stdin, append(tt.args, "--pcap", trace)...)
		if r.status != 0 || !strings.Contains(r.stdout, tt.want) || strings.Contains(r.stderr, "not pushed") {
			t.Errorf("%q: status %d, %s%s", tt.args, r.status, r.stdout, r.stderr)
		}
		b, err := os.ReadFile(trace)
		noErr(t, err)
		for _, word := range []string{"the record", "stagside"} {
			if strings.Contains(string(b), word) != tt.clear {
				t.Errorf("%q: %q in the capture: want %v", tt.args, word, tt.clear)
			}
		}
	}
}

// TestTLSMountLine: the mount that serve prints is one that the export takes; Linux has no TLS on RDMA.
func TestTLSMountLine(t *testing.T) {
	r := &readyJSON{Export: "/d", RDMA: "192.0.2.1:1", Mount: "192.0.2.1:2", TCP: "192.0.2.1:3"}
	for _, tt := range []struct {
		e    server.Export
		tcp  string
		want string // "" for no line
	}{
		{server.Export{}, r.TCP, "vers=3,rdma,"},
		{server.Export{XprtSec: server.XprtNone | server.XprtTLS}, r.TCP, "vers=3,rdma,"},
		{server.Export{XprtSec: server.XprtTLS | server.XprtMTLS}, r.TCP, "proto=tcp,xprtsec=tls,port=3"},
		{server.Export{XprtSec: server.XprtMTLS}, r.TCP, "proto=tcp,xprtsec=mtls,port=3"},
		{server.Export{XprtSec: server.XprtMTLS}, "", ""},
		{server.Export{Clients: []server.Client{{Certs: []string{"a"}}, {Certs: []string{"b"}}}}, r.TCP, "xprtsec=mtls"},
		{server.Export{Clients: []server.Client{{Certs: []string{"a"}}, {}}}, r.TCP, "vers=3,rdma,"},
		{server.Export{Sec: []xdr.AuthFlavor{server.Krb5p, server.Krb5}}, r.TCP, "vers=3,rdma,sec=krb5p,port=1,"},
	} {
		at := *r
		at.TCP = tt.tcp
		if line := mountLine(&at, &tt.e); !strings.Contains(line, tt.want) || (line == "") != (tt.want == "") {
			t.Errorf("%+v: %q", tt.e, line)
		}
	}
}

// clearServer serves without TLS.
func clearServer(t *testing.T) string {
	s := started(t, &serviceConfig{exports: one("/any"), memory: true, tcp: "127.0.0.1:0", config: &transport.Config{}})
	return s.tcp.Addr().String()
}

// TestReloadTLS: after SIGHUP, sessions that the CAs no longer cover have ended, and others go on; files that cannot be read
// change nothing.
func TestReloadTLS(t *testing.T) {
	w := newTLSWorld(t)
	_, tcp, _ := net.SplitHostPort(w.s.tcp.Addr().String())
	dial := func(path string, f tlsFiles) *nfsclient.Client {
		t.Helper()
		u, err := nfsclient.ParseURL("nfs://127.0.0.1:" + tcp + path)
		noErr(t, err)
		var cfg nfsclient.Config
		cfg.Transport = new(transport.Config)
		cfg.Transport.TLS.Config, err = f.read()
		noErr(t, err)
		c, err := nfsclient.Dial(t.Context(), u, &cfg)
		noErr(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	works := func(c *nfsclient.Client) error { return c.Refresh(t.Context(), c.Root()) }
	mutual := dial("/mtls", tlsFiles{ca: w.serverCA, cert: w.cert, key: w.key})
	other := dial("/tls", tlsFiles{ca: w.serverCA})
	good, err := os.ReadFile(w.mine)
	noErr(t, err)
	noErr(t, os.WriteFile(w.mine, []byte("nothing"), 0o600))
	if _, err := w.s.reload(); err == nil {
		t.Error("a file without a CA is taken")
	}
	noErr(t, os.WriteFile(w.mine, good, 0o600))
	if _, err := w.s.reload(); err != nil {
		t.Error(err)
	}
	for _, c := range []*nfsclient.Client{mutual, other} {
		if err := works(c); err != nil {
			t.Errorf("the same CA: %v", err)
		}
	}
	next := tlstest.New(t, "clients") // of the same name
	next.File(w.dir)
	if _, err := w.s.reload(); err != nil {
		t.Error(err)
	}
	if err := works(mutual); err == nil || errors.Is(err, nfs3.ErrAcces) {
		t.Errorf("another CA: %v", err)
	}
	if err := works(other); err != nil {
		t.Errorf("without a certificate: %v", err)
	}
	again := dial("/mtls", certs(t, w, next))
	if err := works(again); err != nil {
		t.Errorf("a certificate of the other CA: %v", err)
	}
}

// TestExpiredCertificate: who has a certificate that has expired learns it at once, and a server goes on with the one before.
func TestExpiredCertificate(t *testing.T) {
	w := newTLSWorld(t)
	cert, key := tlstest.Files(t, w.dir, w.servers.Issue("nfs.test", time.Now().Add(-time.Hour))) // over the server's
	if _, err := w.s.reload(); err == nil || !strings.Contains(err.Error(), "renew it") {
		t.Errorf("reload: %v", err)
	}
	tcp := "nfs://" + w.s.tcp.Addr().String() + "/tls"
	if c := command(t.Context(), "", "ls", "--reconnect", "0", "--tls-ca", w.serverCA, tcp); c.status != 0 {
		t.Error(c.stderr)
	}
	if c := command(t.Context(), "", "ls", "--tls-ca", w.serverCA, "--tls-cert", cert, "--tls-key", key, tcp); c.status == 0 || !strings.Contains(c.stderr, "has expired at") {
		t.Error(c.stderr)
	}
}

// TestReloadTLSLogs: after SIGHUP, the connection of a log that the CAs no longer cover has ended too.
func TestReloadTLSLogs(t *testing.T) {
	w := newTLSWorld(t)
	url := "nfs+rdma+tls://" + w.s.rdma.Addr().String() + "/mtls"
	r, stdin := io.Pipe()
	ctx, cancel := context.WithCancelCause(t.Context())
	a := &app{stdin: r, stdout: io.Discard, stderr: io.Discard, hard: ctx}
	var end sync.WaitGroup
	end.Go(func() {
		a.run(ctx, []string{"log", "append", "--push-secret", w.dir + "/a", url, "--reconnect", "0", "--tls-ca", w.serverCA, "--tls-cert", w.cert, "--tls-key", w.key})
	})
	defer func() {
		cancel(errors.New("the test has ended")) // else the command tries for a while to connect again
		stdin.Close()
		end.Wait()
	}()
	eventually(t, func() bool { return w.s.push.Stats().Conns == 1 }, "no log is connected")
	tlstest.New(t, "clients").File(w.dir) // another CA of the same name
	if _, err := w.s.reload(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		for _, e := range w.log.FilterMessage("connection of a log ended").All() {
			if err, _ := e.ContextMap()["error"].(string); strings.Contains(err, "unknown authority") {
				return true
			}
		}
		return false
	})
}

func certs(t *testing.T, w *tlsWorld, ca *tlstest.CA) (f tlsFiles) {
	f.ca = w.serverCA
	f.cert, f.key = tlstest.Files(t, t.TempDir(), ca.Issue("client.test", time.Now().Add(time.Hour)))
	return f
}
