package transport_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/internal/tlstest"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// world is a server's CA and a clients' CA, and certificates of both.
type world struct {
	servers, clients *tlstest.CA
	server, client   tls.Certificate
}

func newWorld(t testing.TB) *world {
	w := &world{servers: tlstest.New(t, "servers"), clients: tlstest.New(t, "clients")}
	end := time.Now().Add(time.Hour)
	w.server, w.client = w.servers.Issue("nfs.test", end), w.clients.Issue("client.test", end)
	return w
}

// serverConfig demands TLS, and looks at certificates of clients that have one.
func (w *world) serverConfig() *transport.Config {
	c := testConfig()
	c.TLS.Config = &tls.Config{Certificates: []tls.Certificate{w.server}, ClientCAs: w.clients.Pool(), ClientAuth: tls.VerifyClientCertIfGiven}
	return c
}

// clientConfig demands TLS, with the client's certificates.
func (w *world) clientConfig(own ...tls.Certificate) *transport.Config {
	c := testConfig()
	c.TLS.Config = &tls.Config{RootCAs: w.servers.Pool(), Certificates: own}
	return c
}

// tlsEcho counts calls, and keeps what protected the last one.
type tlsEcho struct {
	*echo
	calls atomic.Int64
	tls   atomic.Pointer[tls.ConnectionState]
}

func (h *tlsEcho) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	h.calls.Add(1)
	h.tls.Store(req.TLS)
	h.echo.ServeRPC(ctx, req, resp)
}

// serveTLS serves on loopback, RDMA and records on one port.
func serveTLS(t testing.TB, cfg *transport.Config) (h *tlsEcho, s *transport.Server, addr string) {
	t.Helper()
	return serveTLSBy(t, cfg, (*transport.Server).ServeShared)
}

func serveTLSBy(t testing.TB, cfg *transport.Config, serve func(*transport.Server, net.Listener) error) (h *tlsEcho, s *transport.Server, addr string) {
	t.Helper()
	h = &tlsEcho{echo: newEcho()}
	s = &transport.Server{Handler: h, Config: cfg}
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	done := make(chan error, 1)
	go func() { done <- serve(s, l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; !errors.Is(err, transport.ErrServerClosed) {
			t.Error(err)
		}
	})
	return h, s, l.Addr().String()
}

// tlsMode is what both ends want of TLS, and what becomes of their calls.
type tlsMode struct {
	name           string
	server, client *transport.Config
	want           string // how the call is protected: "clear", "tls", or whose certificate the client has; "": fails
	fails          func(error) bool
}

// run has a client make a call.
func (tt *tlsMode) run(t *testing.T, proto string, serve func(*transport.Server, net.Listener) error, dial func(addr string) (tlsClient, error)) {
	t.Helper()
	h, _, addr := serveTLSBy(t, tt.server, serve)
	c, err := dial(addr)
	if err == nil {
		defer c.Close()
		call, r := bothWays(1<<20), rpc.Reply{}
		if err = c.Do(testCtx(t), call, &r); err == nil {
			err = r.Header.Err()
		}
		r.Release()
	}
	if tt.fails != nil {
		if err == nil || !tt.fails(err) || h.calls.Load() > 0 {
			t.Errorf("%v, %d calls have run", err, h.calls.Load())
		}
		return
	}
	noErr(t, err)
	got := "clear"
	if s := h.tls.Load(); s != nil {
		got = "tls"
		if s.Version != tls.VersionTLS13 || s.NegotiatedProtocol != proto || c.TLS() == nil {
			t.Errorf("%+v", s)
		}
		if len(s.PeerCertificates) > 0 {
			got = s.PeerCertificates[0].Subject.CommonName
		}
	}
	if st := c.Stats(); got != tt.want || proto != "sunrpc" && st.OctetsWritten != 1<<20 {
		t.Errorf("%s, want %s; %+v", got, tt.want, st)
	}
}

type tlsClient interface {
	rpc.Caller
	TLS() *tls.ConnectionState
}

// tlsDialers connect by either transport.
func tlsDialers(t testing.TB) map[string]func(addr string, cfg *transport.Config) (rpc.Caller, error) {
	return map[string]func(addr string, cfg *transport.Config) (rpc.Caller, error){
		"records": func(addr string, cfg *transport.Config) (rpc.Caller, error) {
			return transport.DialStream(testCtx(t), "tcp", addr, cfg)
		},
		"RDMA": func(addr string, cfg *transport.Config) (rpc.Caller, error) {
			return transport.Dial(testCtx(t), "tcp", addr, cfg)
		},
	}
}

// failed says that a call has failed as the caller sees it.
func failed[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// TestTLSModes: what becomes of a call, by what both ends want (RFC 9289 Sections 4.1 and 7.1.1).
func TestTLSModes(t *testing.T) {
	w := newWorld(t)
	clear := func(c *transport.Config) *transport.Config { c.TLS.AllowClear = true; return c }
	tooWeak := func(err error) bool {
		e, ok := errors.AsType[*xdr.RPCStatusError](err)
		return ok && e.AuthStat == xdr.AuthTooWeak
	}
	for _, tt := range []tlsMode{
		{"off, off", testConfig(), testConfig(), "clear", nil},
		{"off, allowed", testConfig(), clear(w.clientConfig()), "clear", nil},
		{"off, required", testConfig(), w.clientConfig(), "", func(err error) bool { return errors.Is(err, rpc.ErrNoTLS) }},
		{"allowed, off", clear(w.serverConfig()), testConfig(), "clear", nil},
		{"allowed, allowed", clear(w.serverConfig()), clear(w.clientConfig()), "tls", nil},
		{"allowed, required", clear(w.serverConfig()), w.clientConfig(), "tls", nil},
		{"required, off", w.serverConfig(), testConfig(), "", tooWeak},
		{"required, required", w.serverConfig(), w.clientConfig(), "tls", nil},
		{"required, mutual", w.serverConfig(), w.clientConfig(w.client), "client.test", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.run(t, "sunrpc", overShared, func(addr string) (tlsClient, error) {
				return transport.DialStream(testCtx(t), "tcp", addr, tt.client)
			})
		})
	}
}

// TestTLSRDMA: TLS below MPA, on a port of its own and on one that is shared, by what both ends want. Behind another protocol
// of TLS no MPA is read, and without a certificate for the name nothing is sent.
func TestTLSRDMA(t *testing.T) {
	w := newWorld(t)
	allowed, otherName := w.serverConfig(), w.clientConfig()
	allowed.TLS.AllowClear = true
	otherName.TLS.Config.ServerName = "other.test"
	refused := func(err error) bool { e, ok := errors.AsType[*rpc.OpError](err); return ok && e.Rejected() }
	for _, tt := range []tlsMode{
		{"off, required", testConfig(), w.clientConfig(), "", failed[*rpc.OpError]},
		{"allowed, off", allowed, testConfig(), "clear", nil},
		{"allowed, required", allowed, w.clientConfig(), "tls", nil},
		{"required, off", w.serverConfig(), testConfig(), "", refused},
		{"required, required", w.serverConfig(), w.clientConfig(), "tls", nil},
		{"required, mutual", w.serverConfig(), w.clientConfig(w.client), "client.test", nil},
		{"another name", w.serverConfig(), otherName, "", failed[x509.HostnameError]},
	} {
		for name, serve := range map[string]func(*transport.Server, net.Listener) error{"": overRDMA, ", shared": overShared} {
			t.Run(tt.name+name, func(t *testing.T) {
				tt.run(t, "stag-mpa", serve, func(addr string) (tlsClient, error) {
					return transport.Dial(testCtx(t), "tcp", addr, tt.client)
				})
			})
		}
	}
	t.Run("another protocol", func(t *testing.T) {
		h, s, addr := serveTLS(t, w.serverConfig())
		for _, protos := range [][]string{nil, {"sunrpc"}} {
			nc, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: w.servers.Pool(), NextProtos: protos})
			if err != nil { // in TLS 1.3 the client may learn of it after the handshake
				continue
			}
			nc.SetDeadline(time.Now().Add(patience))
			nc.Write(append([]byte(mpa.RequestKey), 0x40, 1, 0, 0))
			if n, _ := nc.Read(make([]byte, 1)); n > 0 {
				t.Errorf("%q: MPA is answered", protos)
			}
			nc.Close()
		}
		if err := s.Shutdown(testCtx(t)); err != nil || h.calls.Load() > 0 {
			t.Errorf("%v, %d calls", err, h.calls.Load())
		}
	})
}

// TestRecheckTLS: when a CA is trusted no longer, the sessions that it covered end, and the others go on.
func TestRecheckTLS(t *testing.T) {
	w := newWorld(t)
	for name, dial := range tlsDialers(t) {
		t.Run(name, func(t *testing.T) {
			cfg := w.serverConfig()
			var pool atomic.Pointer[x509.CertPool]
			pool.Store(w.clients.Pool())
			cfg.TLS.Config.VerifyConnection = func(s tls.ConnectionState) error {
				if len(s.PeerCertificates) == 0 {
					return nil
				}
				_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: pool.Load(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
				return err
			}
			_, s, addr := serveTLS(t, cfg)
			connected := func(own ...tls.Certificate) rpc.Caller {
				c := must(dial(addr, w.clientConfig(own...)))(t)
				t.Cleanup(func() { c.Close() })
				mustDo(t, c, echoCall(nil))
				return c
			}
			mutual, other := connected(w.client), connected()
			noErr(t, s.RecheckTLS())
			mustDo(t, mutual, echoCall(nil))
			pool.Store(w.servers.Pool())
			noErr(t, s.RecheckTLS())
			if err := try(t, mutual, echoCall(nil)); err == nil {
				t.Error("a session of a CA that is not trusted goes on")
			}
			mustDo(t, other, echoCall(nil))
			other.Close()
			noErr(t, s.Shutdown(testCtx(t)))
		})
	}
}

// bothWays is a call with n octets of data, and as many of result.
func bothWays(n int) *rpc.Call {
	c := echoCall(filled(n))
	c.Sink = make([]byte, n)
	return c
}

// TestTLSListen: a listener, and connections of programs that speak records by themselves, have TLS at either end; a session
// that is not trusted any more ends.
func TestTLSListen(t *testing.T) {
	w := newWorld(t)
	h, _, addr := serveTLS(t, w.serverConfig())
	ctx := testCtx(t)
	named := w.clientConfig(w.client)
	named.TLS.Config.ServerName = "nfs.test"
	var lost atomic.Bool
	cfg := w.serverConfig()
	cfg.TLS.Config.VerifyConnection = func(tls.ConnectionState) error {
		if lost.Load() {
			return errors.New("lost")
		}
		return nil
	}
	front := must(transport.NewListener(must(net.Listen("tcp", "127.0.0.1:0"))(t), cfg))(t)
	defer front.Close()
	go func() {
		for {
			a, err := front.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", addr)
			if err == nil {
				b, err = transport.StartTLS(ctx, b, named)
			}
			if err != nil {
				a.Close()
				t.Error(err)
				return
			}
			go join(a, b)
		}
	}()
	c := must(transport.Dial(ctx, "tcp", front.Addr().String(), w.clientConfig()))(t)
	defer c.Close()
	mustDo(t, c, bothWays(1<<20)).Release()
	s := h.tls.Load()
	if s == nil || len(s.VerifiedChains) == 0 {
		t.Errorf("at the server: %+v", s)
	}
	if c, err := transport.Dial(ctx, "tcp", front.Addr().String(), testConfig()); err == nil {
		c.Close()
		t.Error("a connection in clear is taken")
	}
	front.RecheckTLS()
	mustDo(t, c, echoCall(nil)).Release()
	lost.Store(true)
	front.RecheckTLS()
	select {
	case <-c.Done():
	case <-ctx.Done():
		t.Error("a session that is not trusted any more goes on")
	}
}

// TestTLSAsks: a server asks every client for a certificate (RFC 9289 Section 4.2). What nobody verifies is not kept.
func TestTLSAsks(t *testing.T) {
	w := newWorld(t)
	cfg := w.serverConfig()
	cfg.TLS.Config.ClientCAs, cfg.TLS.Config.ClientAuth = nil, tls.NoClientCert
	h, _, addr := serveTLS(t, cfg)
	for name, dial := range tlsDialers(t) {
		var asked atomic.Bool
		own := w.clientConfig()
		own.TLS.Config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			asked.Store(true)
			return &w.client, nil
		}
		c := must(dial(addr, own))(t)
		mustDo(t, c, echoCall(nil)).Release()
		c.Close()
		if s := h.tls.Load(); !asked.Load() || s == nil || len(s.PeerCertificates)+len(s.VerifiedChains) > 0 {
			t.Errorf("%s: asked %v, %+v", name, asked.Load(), s)
		}
	}
}

// TestTLSRefused: who is not trusted makes no call, and is told what to do.
func TestTLSRefused(t *testing.T) {
	w := newWorld(t)
	past, later := time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	server := func(c tls.Certificate) *transport.Config {
		cfg := w.serverConfig()
		cfg.TLS.Config.Certificates = []tls.Certificate{c}
		return cfg
	}
	mutual := w.serverConfig()
	mutual.TLS.Config.ClientAuth = tls.RequireAndVerifyClientCert
	// Whom a server trusts is no reason for this client to keep its certificate for itself.
	always := func(c tls.Certificate) *transport.Config {
		cfg := w.clientConfig()
		cfg.TLS.Config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c, nil }
		return cfg
	}
	otherName := w.clientConfig()
	otherName.TLS.Config.ServerName = "other.test"
	for _, tt := range []struct {
		name           string
		server, client *transport.Config
		say            string
	}{
		{"a server of another CA", server(w.clients.Issue("nfs.test", later)), w.clientConfig(), "is this the file of the CA"},
		{"a server with another name", w.serverConfig(), otherName, "use a name or an address that the certificate has"},
		{"a server whose time is over", server(w.servers.Issue("nfs.test", past)), w.clientConfig(), "renew the certificate"},
		{"a server for a wildcard", server(w.servers.Issue("*.test", later)), w.clientConfig(), "make one with whole names"},
		{"a client of another CA", w.serverConfig(), always(w.servers.Issue("client.test", later)), "does not accept this certificate"},
		{"a client whose time is over", w.serverConfig(), always(w.clients.Issue("client.test", past)), "does not accept this certificate"},
		{"a client without a certificate", mutual, w.clientConfig(), "wants a certificate of this one"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, _, addr := serveTLS(t, tt.server)
			c, err := transport.DialStream(testCtx(t), "tcp", addr, tt.client)
			if err == nil { // in TLS 1.3 the client learns of it after the handshake
				defer c.Close()
				err = c.Do(testCtx(t), echoCall(nil), new(rpc.Reply))
			}
			if e, ok := errors.AsType[*rpc.OpError](err); !ok || !strings.Contains(e.Error(), tt.say) || h.calls.Load() > 0 {
				t.Errorf("%v, %d calls have run", err, h.calls.Load())
			}
			r, err := transport.Dial(testCtx(t), "tcp", addr, tt.client)
			if err == nil {
				r.Close()
			}
			if e, ok := errors.AsType[*rpc.OpError](err); !ok || !strings.Contains(e.Error(), tt.say) || strings.Contains(e.Error(), "MPA") {
				t.Errorf("RDMA: %v", err)
			}
		})
	}
}

// probe is the call of RFC 9289 Section 4.1, with its mark: XID 7, NULL of NFS, AUTH_TLS; starttls is the answer.
var (
	probe    = unhex("80000028 00000007 00000000 00000002 000186a3 00000003 00000000 00000007 00000000 00000000 00000000")
	starttls = unhex("80000020 00000007 00000001 00000000 00000000 00000008 5354415254544c53 00000000")
)

func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

// rawTLS connects to addr, sends octets, and returns what comes until the mark of want octets is full.
func rawTLS(t testing.TB, addr string, send []byte, want int) (net.Conn, []byte) {
	t.Helper()
	nc := must(net.Dial("tcp", addr))(t)
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(patience))
	if _, err := nc.Write(send); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, want)
	n, _ := io.ReadFull(nc, got)
	return nc, got[:n]
}

// ended reads to the end of a connection, and returns what came before.
func ended(t testing.TB, nc net.Conn) []byte {
	t.Helper()
	b, err := io.ReadAll(nc)
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		t.Error("the connection does not end")
	}
	return b
}

// TestTLSClear: what comes with the probe in clear is never run, and ends the connection without an answer (RFC 9289 Section
// 5.1.1).
func TestTLSClear(t *testing.T) {
	w := newWorld(t)
	cfg := w.serverConfig()
	cfg.TLS.AllowClear = true
	h, _, addr := serveTLS(t, cfg)
	null := markedRecord(rpcCall(9, procNull))
	for name, behind := range map[string][]byte{"a call": null, "a probe": probe, "an octet": {0x16}, "half a mark": {0x80, 0}} {
		if _, got := rawTLS(t, addr, append(bytes.Clone(probe), behind...), 1); len(got) > 0 {
			t.Errorf("%s with the probe: answer % x", name, got)
		}
	}
	if n := h.calls.Load(); n > 0 {
		t.Errorf("%d calls have run", n)
	}
}

// TestTLSLiars: raw clients that lie at a step of the upgrade, on a port for both transports. What they send in clear
// behind the probe never runs and is never answered; each connection ends, and no other is touched.
func TestTLSLiars(t *testing.T) {
	w := newWorld(t)
	cfg := w.serverConfig()
	cfg.TLS.AllowClear = true
	h, s, addr := serveTLS(t, cfg)
	var fragments []byte // of the probe, of one octet each
	for i, b := range probe[4:] {
		fragments = append(xdr.AppendRecordMark(fragments, 1, i == len(probe)-5), b)
	}
	null := markedRecord(rpcCall(9, procNull))
	hello := clientHello(t)
	mpaReq := append([]byte(mpa.RequestKey), 0x40, 1, 0, 0)
	record := func(typ byte, b ...byte) []byte {
		return append([]byte{typ, 3, 3, byte(len(b) >> 8), byte(len(b))}, b...)
	}
	for _, tt := range []struct {
		name  string
		ask   []byte                     // nil: the probe
		then  []byte                     // behind the answer
		half  bool                       // then it ends its direction
		shake func(nc net.Conn) net.Conn // what its TLS goes through; then a call runs
		bad   *tls.Config                // a handshake that fails
	}{
		{name: "the probe in fragments of an octet", ask: fragments, shake: func(nc net.Conn) net.Conn { return nc }},
		{name: "a ClientHello an octet at a time", shake: func(nc net.Conn) net.Conn { return &slowWriter{nc} }},
		{name: "a ClientHello in records of one octet", shake: func(nc net.Conn) net.Conn { return &shaped{nc, false} }},
		{name: "a call in clear", then: null},
		{name: "a call in clear and a ClientHello", then: append(bytes.Clone(null), hello...)},
		{name: "a ClientHello and a call in clear", then: append(bytes.Clone(hello), null...)},
		{name: "half a ClientHello and a call in clear", then: append(bytes.Clone(hello[:50]), null...), half: true},
		{name: "a second probe", then: probe},
		{name: "an MPA Request", then: mpaReq},
		{name: "an alert", then: record(21, 2, 40), half: true},
		{name: "ChangeCipherSpec", then: record(20, 1), half: true},
		{name: "an empty record of the handshake", then: record(22), half: true},
		{name: "TLS 1.2 in the record, 1.0 within", then: append([]byte{22, 3, 1, 0, 45, 1, 0, 0, 41, 3, 1}, make([]byte, 39)...), half: true},
		{name: "SSL 2", then: []byte{0x80, 0x2e, 1, 3, 1, 0, 0x15, 0, 0, 0, 0x10}, half: true},
		{name: "a record of 65535 octets", then: append([]byte{0x16, 3, 1, 0xff, 0xff}, make([]byte, 70_000)...)},
		{name: "two ClientHellos", then: append(bytes.Clone(hello), hello...)},
		{name: "TLS 1.2", bad: &tls.Config{MaxVersion: tls.VersionTLS12}},
		{name: "another protocol", bad: &tls.Config{NextProtos: []string{"h2"}}},
		{name: "the end at once", half: true},
		{name: "half of the probe", ask: probe[:20], half: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ask, want := probe, len(starttls)
			if tt.ask != nil {
				ask = tt.ask
			}
			if bytes.Equal(ask[:min(20, len(ask))], probe[:20]) && len(ask) != len(probe) {
				want = 0 // it is no probe
			}
			before := h.calls.Load()
			nc, got := rawTLS(t, addr, ask, want)
			if want > 0 && !bytes.Equal(got, starttls) {
				t.Fatalf("answer % x", got)
			}
			if tt.shake != nil {
				c := tls.Client(tt.shake(nc), &tls.Config{RootCAs: w.servers.Pool(), ServerName: "nfs.test"})
				_, err := c.Write(null)
				if err == nil {
					_, err = xdr.NewRecordReader(c, 0).Next(nil)
				}
				if err != nil || h.calls.Load() != before+1 {
					t.Errorf("%v, %d calls", err, h.calls.Load()-before)
				}
				c.Close()
				return
			}
			if tt.bad != nil {
				failed := s.Stats().TLSFailed
				tt.bad.RootCAs, tt.bad.ServerName = w.servers.Pool(), "nfs.test"
				_, _ = tls.Client(nc, tt.bad).Read(make([]byte, 1))
				ended(t, nc)
				waitFor(t, "it is counted", func() bool { return s.Stats().TLSFailed == failed+1 })
				return
			}
			nc.Write(tt.then)
			if tt.half {
				nc.(*net.TCPConn).CloseWrite()
			}
			for b := ended(t, nc); len(b) > 0; { // at most what TLS says
				if len(b) < 5 || b[0] < 20 || b[0] > 23 || b[1] != 3 || len(b) < 5+int(binary.BigEndian.Uint16(b[3:])) {
					t.Fatalf("in clear: % x", b[:min(len(b), 60)])
				}
				b = b[5+int(binary.BigEndian.Uint16(b[3:])):]
			}
			if h.calls.Load() != before {
				t.Errorf("%d calls have run", h.calls.Load()-before)
			}
		})
	}
	for name, first := range map[string][]byte{ // of a connection that might have TLS below MPA
		"half a ClientHello": hello[:50], "a ClientHello and an MPA Request": append(bytes.Clone(hello), mpaReq...),
		"an octet of TLS and a call": append([]byte{22}, null...), "an empty record": record(22), "two ClientHellos": append(bytes.Clone(hello), hello...),
	} {
		nc, _ := rawTLS(t, addr, first, 0)
		nc.(*net.TCPConn).CloseWrite()
		if b := ended(t, nc); len(b) > 0 && (b[0] < 20 || b[0] > 23) {
			t.Errorf("%s: in clear: % x", name, b[:min(len(b), 60)])
		}
	}
	n := h.calls.Load()
	c := must(transport.DialStream(testCtx(t), "tcp", addr, w.clientConfig()))(t)
	mustDo(t, c, echoCall(nil)).Release()
	c.Close()
	if h.calls.Load() != n+1 {
		t.Errorf("%d calls have run", h.calls.Load()-n)
	}
	if st := s.Stats(); st.MTLSConns != 0 || st.TLSFailed < 10 {
		t.Errorf("counted: %+v", st.SecurityStats)
	}
	if err := s.Shutdown(testCtx(t)); err != nil { // it waits for what counts as a connection
		t.Error(err)
	}
}

// slowWriter writes an octet at a time.
type slowWriter struct{ net.Conn }

func (c *slowWriter) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := c.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

// shaped cuts the first record that it writes into records of one octet.
type shaped struct {
	net.Conn
	begun bool
}

func (c *shaped) Write(p []byte) (int, error) {
	if c.begun {
		return c.Conn.Write(p)
	}
	c.begun = true
	var all []byte
	for _, b := range p[5:] {
		all = append(all, p[0], p[1], p[2], 0, 1, b)
	}
	if _, err := c.Conn.Write(all); err != nil {
		return 0, err
	}
	return len(p), nil
}

// TestTLSBadProbe: AUTH_TLS other than as the probe is AUTH_BADCRED, in clear and within TLS, and the connection goes on (RFC
// 9289 Section 4.1). Without TLS the probe is too.
func TestTLSBadProbe(t *testing.T) {
	w := newWorld(t)
	cfg := w.serverConfig()
	cfg.TLS.AllowClear, cfg.AnyCred = true, true // no AUTH_TLS reaches the handler all the same
	h, _, addr := serveTLS(t, cfg)
	off := testConfig()
	off.AnyCred = true
	_, _, plain := serveTLS(t, off)
	ask := func(rw io.ReadWriter, change func(h *xdr.CallHeader), args ...byte) xdr.ReplyHeader {
		t.Helper()
		ch := xdr.CallHeader{XID: 5, RPCVers: 2, Prog: testProg, Vers: testVers, Cred: xdr.Auth{Flavor: xdr.AuthTLS}}
		change(&ch)
		msg := append(xdr.AppendCall(nil, &ch), args...)
		if _, err := rw.Write(append(xdr.AppendRecordMark(nil, len(msg), true), msg...)); err != nil {
			t.Fatal(err)
		}
		b := must(xdr.NewRecordReader(rw, 0).Next(nil))(t)
		var r xdr.ReplyHeader
		d := xdr.NewDecoder(b)
		noErr(t, r.Parse(&d))
		return r
	}
	asIs := func(*xdr.CallHeader) {}
	bad := func(name string, r xdr.ReplyHeader) {
		t.Helper()
		if !r.Denied || r.Reject != xdr.AuthError || r.AuthStat != xdr.AuthBadCred {
			t.Errorf("%s: %+v", name, r)
		}
	}
	nc, _ := rawTLS(t, addr, nil, 0)
	bad("another procedure", ask(nc, func(h *xdr.CallHeader) { h.Proc = procEcho }))
	bad("a credential with a body", ask(nc, func(h *xdr.CallHeader) { h.Cred.Body = words(1) }))
	bad("a verifier with a body", ask(nc, func(h *xdr.CallHeader) { h.Verf.Body = words(1) }))
	bad("a verifier of AUTH_SYS", ask(nc, func(h *xdr.CallHeader) { h.Verf.Flavor = xdr.AuthSys }))
	bad("arguments", ask(nc, asIs, 0, 0, 0, 0))
	if r := ask(nc, asIs); string(r.Verf.Body) != "STARTTLS" || r.Denied {
		t.Fatalf("then the probe: %+v", r)
	}
	c := tls.Client(nc, &tls.Config{RootCAs: w.servers.Pool(), ServerName: "nfs.test"}) // which has no ALPN
	bad("within TLS", ask(c, asIs))
	bad("another procedure within TLS", ask(c, func(h *xdr.CallHeader) { h.Proc = procEcho }))
	if r := ask(c, func(h *xdr.CallHeader) { h.Cred = xdr.Auth{} }); r.Err() != nil || h.calls.Load() != 1 {
		t.Errorf("then a call: %+v, %d have run", r, h.calls.Load())
	}
	nc, _ = rawTLS(t, plain, nil, 0)
	bad("a server without TLS", ask(nc, asIs))
}

// TestTLSAfterCalls: the answer to the probe comes when all calls before it are answered, and in clear nothing comes after it.
func TestTLSAfterCalls(t *testing.T) {
	w := newWorld(t)
	cfg := w.serverConfig()
	cfg.TLS.AllowClear = true
	h, _, addr := serveTLS(t, cfg)
	block := rpcCall(8, procBlock)
	nc, _ := rawTLS(t, addr, append(xdr.AppendRecordMark(nil, len(block), true), block...), 0)
	<-h.enter
	if _, err := nc.Write(probe); err != nil {
		t.Fatal(err)
	}
	h.leave <- struct{}{}
	rr := xdr.NewRecordReader(nc, 0)
	for _, want := range []uint32{8, 7} {
		b, err := rr.Next(nil)
		if xid, _, _ := xdr.PeekXID(b); err != nil || xid != want {
			t.Fatalf("XID %d, %v, want %d", xid, err, want)
		}
	}
	c, err := transport.NewStreamClient(testCtx(t), tls.Client(nc, &tls.Config{RootCAs: w.servers.Pool(), ServerName: "nfs.test"}), nil)
	noErr(t, err)
	mustDo(t, c, echoCall(filled(3))).Release()
	c.Close()
}

// clientHello returns the first flight of a client.
func clientHello(t testing.TB) []byte {
	a, b := net.Pipe()
	go tls.Client(a, &tls.Config{InsecureSkipVerify: true}).Handshake()
	defer a.Close()
	defer b.Close()
	buf := make([]byte, 16<<10)
	n := must(b.Read(buf))(t)
	return buf[:n]
}

// TestTLSSlow: a client that does not finish its handshake goes after Startup.Timeout, is charged as a connection until then,
// and holds up nobody.
func TestTLSSlow(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		cfg := w.serverConfig()
		cfg.Startup.Timeout, cfg.Limits.Conns, cfg.Limits.PerClient.Conns = 5*time.Second, 2, 2
		s := &transport.Server{Handler: newEcho(), Config: cfg}
		defer s.Close()
		serve := func() (net.Conn, chan error) {
			a, b := rdmaptest.Pipe()
			done := make(chan error, 1)
			go func() { done <- s.ServeStreamConn(b) }()
			return a, done
		}
		slow, done := serve()
		defer slow.Close()
		slow.Write(probe)
		io.ReadFull(slow, make([]byte, len(starttls)))
		slow.Write(clientHello(t)[:20])
		synctest.Wait() // it is charged for its handshake, no longer for its records
		begun := time.Now()
		other, otherDone := serve()
		c := w.clientConfig()
		c.TLS.Config.ServerName = "nfs.test"
		good := must(transport.NewStreamClient(t.Context(), other, c))(t)
		var r rpc.Reply
		defer r.Release()
		if err := good.Do(t.Context(), echoCall(filled(100)), &r); err != nil || time.Since(begun) > 0 {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		third, thirdDone := serve()
		defer third.Close()
		if _, refused := errors.AsType[*rpc.LimitError](<-thirdDone); !refused {
			t.Error("a third connection is served")
		}
		if e, ok := errors.AsType[*rpc.OpError](<-done); !ok || !e.Timeout() || time.Since(begun) != 5*time.Second {
			t.Errorf("%v after %v", e, time.Since(begun))
		}
		if n := s.Stats().SlowPeers; n != 1 {
			t.Errorf("%d slow peers", n)
		}
		good.Close()
		if err := <-otherDone; err != nil {
			t.Error(err)
		}
	})
}

// TestTLSIdleKeyUpdate: what TLS answers by itself on a connection that was idle for longer than any reply may take does not
// break it.
func TestTLSIdleKeyUpdate(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		s := &transport.Server{Handler: newEcho(), Config: w.serverConfig()}
		defer s.Close()
		a, b := rdmaptest.Pipe()
		done := make(chan error, 1)
		go func() { done <- s.ServeStreamConn(b) }()
		a.Write(probe)
		io.ReadFull(a, make([]byte, len(starttls)))
		var log bytes.Buffer
		c := tls.Client(a, &tls.Config{RootCAs: w.servers.Pool(), ServerName: "nfs.test", KeyLogWriter: &log})
		noErr(t, c.Handshake())
		if c.ConnectionState().CipherSuite != tls.TLS_AES_128_GCM_SHA256 {
			t.Skip("the test knows one cipher suite")
		}
		_, line, _ := strings.Cut(log.String(), "CLIENT_TRAFFIC_SECRET_0 ")
		secret := unhex(strings.Fields(line)[1])
		null := rpcCall(9, procNull)
		null = append(markedRecord(null), 0x17)
		answers := func(n int) { // records of TLS come
			t.Helper()
			for range n {
				head := make([]byte, 5)
				if _, err := io.ReadFull(a, head); err != nil {
					t.Fatalf("no answer: %v", err)
				}
				io.ReadFull(a, make([]byte, binary.BigEndian.Uint16(head[3:])))
			}
		}
		a.Write(sealedAt(t, secret, 0, null))
		answers(1)
		time.Sleep(time.Hour)
		a.Write(sealedAt(t, secret, 1, []byte{24, 0, 0, 1, 1, 0x16})) // KeyUpdate, update_requested
		answers(1)
		a.Write(sealedAt(t, expand(t, secret, "traffic upd", 32), 0, null))
		answers(1)
		a.Close()
		<-done
	})
}

// sealedAt is record nth of a key.
func sealedAt(t testing.TB, secret []byte, nth byte, inner []byte) []byte {
	block := must(aes.NewCipher(expand(t, secret, "key", 16)))(t)
	gcm := must(cipher.NewGCM(block))(t)
	head := binary.BigEndian.AppendUint16([]byte{0x17, 3, 3}, uint16(len(inner)+gcm.Overhead()))
	iv := expand(t, secret, "iv", 12)
	iv[11] ^= nth
	return gcm.Seal(head, iv, inner, head)
}

// expand is HKDF-Expand-Label (RFC 8446 Section 7.1).
func expand(t testing.TB, secret []byte, label string, n int) []byte {
	label = "tls13 " + label
	info := append([]byte{0, byte(n), byte(len(label))}, label...)
	b := must(hkdf.Expand(sha256.New, secret, string(append(info, 0)), n))(t)
	return b
}

// TestTLSClientLiars: a server that lies gets nothing in clear from a client that requires TLS but the probe.
func TestTLSClientLiars(t *testing.T) {
	w := newWorld(t)
	answer := func(xid uint32, h xdr.ReplyHeader) []byte {
		h.XID = xid
		msg := xdr.AppendReply(nil, &h)
		return append(xdr.AppendRecordMark(nil, len(msg), true), msg...)
	}
	verf := func(body string) xdr.ReplyHeader { return xdr.ReplyHeader{Verf: xdr.Auth{Body: []byte(body)}} }
	start := verf("STARTTLS")
	for _, tt := range []struct {
		name string
		send func(xid uint32) []byte
		none bool // it is ErrNoTLS
	}{
		{"an empty verifier", func(x uint32) []byte { return answer(x, verf("")) }, true},
		{"a verifier that is longer", func(x uint32) []byte { return answer(x, verf("STARTTLS ")) }, true},
		{"a verifier of AUTH_SYS", func(x uint32) []byte {
			return answer(x, xdr.ReplyHeader{Verf: xdr.Auth{Flavor: xdr.AuthSys, Body: []byte("STARTTLS")}})
		}, true},
		{"AUTH_BADCRED", func(x uint32) []byte {
			return answer(x, xdr.ReplyHeader{Denied: true, Reject: xdr.AuthError, AuthStat: xdr.AuthBadCred})
		}, true},
		{"another XID", func(x uint32) []byte { return answer(x+1, start) }, false},
		{"two answers", func(x uint32) []byte { return append(answer(x, start), answer(x, start)...) }, false},
		{"a call", func(x uint32) []byte {
			m := rpcCall(x, 0)
			return append(xdr.AppendRecordMark(nil, len(m), true), m...)
		}, false},
		{"a long record", func(uint32) []byte { return xdr.AppendRecordMark(nil, 1<<20, true) }, false},
		{"nothing", func(uint32) []byte { return nil }, false},
		{"no TLS", func(x uint32) []byte { return append(answer(x, start)[:4:4], answer(x, start)[4:]...) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
			defer l.Close()
			a, _ := rawTLS(t, l.Addr().String(), nil, 0)
			b, err := l.Accept()
			noErr(t, err)
			defer b.Close()
			heard := make(chan []byte, 1)
			go func() {
				call := make([]byte, len(probe))
				io.ReadFull(b, call)
				b.Write(tt.send(binary.BigEndian.Uint32(call[4:])))
				b.(*net.TCPConn).CloseWrite()
				rest, _ := io.ReadAll(b)
				clear(call[4:8])
				heard <- append(call, rest...)
			}()
			cfg := w.clientConfig()
			cfg.TLS.Config.ServerName = "nfs.test"
			_, err = transport.NewStreamClient(testCtx(t), a, cfg)
			if err == nil || errors.Is(err, rpc.ErrNoTLS) != tt.none {
				t.Error(err)
			}
			got := <-heard
			want := bytes.Clone(probe)
			clear(want[4:8])
			if !bytes.HasPrefix(got, want) || len(got) > len(want) && got[len(want)] != 0x16 {
				t.Errorf("it sends % x", got[:min(len(got), 100)])
			}
		})
	}
	t.Run("silence", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, b := net.Pipe()
			defer b.Close()
			go io.Copy(io.Discard, b)
			begun := time.Now()
			if _, err := transport.NewStreamClient(t.Context(), a, w.clientConfig()); err == nil || time.Since(begun) != 10*time.Second {
				t.Errorf("%v after %v", err, time.Since(begun))
			}
		})
	})
}

// BenchmarkTLS is what TLS costs, on TCP and below MPA, the kinds of a call in turn: a call without data, 1 MiB in either
// direction, and a connection with its first call.
func BenchmarkTLS(b *testing.B) {
	w := newWorld(b)
	stream, rdma := tlsDialers(b)["records"], tlsDialers(b)["RDMA"]
	kinds := []struct {
		name           string
		server, client *transport.Config
		dial           func(addr string, cfg *transport.Config) (rpc.Caller, error)
		addr           string
		c              rpc.Caller
	}{
		{name: "tcp", server: testConfig(), client: testConfig(), dial: stream},
		{name: "tcp+tls", server: w.serverConfig(), client: w.clientConfig(), dial: stream},
		{name: "tcp+mtls", server: w.serverConfig(), client: w.clientConfig(w.client), dial: stream},
		{name: "rdma", server: testConfig(), client: testConfig(), dial: rdma},
		{name: "rdma+tls", server: w.serverConfig(), client: w.clientConfig(), dial: rdma},
	}
	for i := range kinds {
		k := &kinds[i]
		_, _, k.addr = serveTLS(b, k.server)
		var err error
		if k.c, err = k.dial(k.addr, k.client); err != nil {
			b.Fatal(err)
		}
		defer k.c.Close()
	}
	fill := wordCall(procFill, 1<<20)
	fill.Sink = make([]byte, 1<<20)
	null := &rpc.Call{Prog: testProg, Vers: testVers}
	for _, call := range []struct {
		name string
		call *rpc.Call
		n    int
	}{{"null", null, 0}, {"read", fill, 1 << 20}, {"write", itemCall(procSum, filled(1<<20)), 1 << 20}} {
		for _, k := range kinds {
			b.Run(call.name+"/"+k.name, func(b *testing.B) {
				b.SetBytes(int64(call.n))
				for b.Loop() {
					mustDo(b, k.c, call.call).Release()
				}
			})
		}
	}
	for _, k := range kinds {
		b.Run("connect/"+k.name, func(b *testing.B) {
			for b.Loop() {
				c := must(k.dial(k.addr, k.client))(b)
				mustDo(b, c, null).Release()
				c.Close()
			}
		})
	}
}
