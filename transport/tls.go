package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/transport/internal/execute"
	"github.com/stag-rdma/stag/transport/internal/requester"
	"github.com/stag-rdma/stag/transport/internal/stream"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// TLS switches on TLS 1.3 at either end: on record-marked TCP as RFC 9289 says, where a client asks for it first; on RDMA,
// outside any RFC, below MPA from the first octet. The zero value is: off. With a Config it is required; with AllowClear
// too, it is allowed.
type TLS struct {
	// Config has certificates and whom to trust: on a server Certificates, and ClientCAs with ClientAuth for
	// certificates of clients (mutual TLS); on a client RootCAs, and Certificates if it has one. It is copied.
	// Versions below 1.3 and resumption are off, and ALPN is ours, whatever it says. Every client is asked for a
	// certificate (RFC 9289 Section 4.2), even if ClientAuth says that none is verified: then none is kept. If
	// ServerName is empty, Dial and DialStream take it from the address.
	Config *tls.Config

	// AllowClear lets a server run calls of connections in clear too, and a client of record-marked TCP go on in clear
	// if the server does not offer TLS, which anybody on the path can bring about. If false, a server answers such calls
	// with AUTH_TOOWEAK and refuses such connections of RDMA, and a client ends with [rpc.ErrNoTLS]. A client of RDMA
	// that has a Config never goes on in clear, since there nobody says before that TLS is not offered.
	AllowClear bool
}

// The protocols that both ends offer (ALPN). Choice: of records (RFC 9289 Section 5) neither demands it, since Linux's
// tlshd 1.0 sends none; a peer that offers only others is refused. Below MPA both demand it: no octet that was written
// for one is ever read as the other.
const (
	alpnRecords = "sunrpc"
	alpnMPA     = "stag-mpa"
)

var errClear = errors.New("transport: an RDMA connection in clear, but this server requires TLS below MPA")

func (t *TLS) demanded() bool { return t.Config != nil && !t.AllowClear }

// rfc9289 returns a copy of c with what RFC 9289 demands.
func rfc9289(c *tls.Config, proto string) *tls.Config {
	c = c.Clone()
	c.MinVersion, c.MaxVersion = tls.VersionTLS13, tls.VersionTLS13
	c.NextProtos = []string{proto}
	c.SessionTicketsDisabled = true      // a session that goes on would outlive a change of whom to trust
	c.DynamicRecordSizingDisabled = true // no octet of a record is of use before its last one
	verify := c.VerifyConnection
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if proto == alpnMPA && s.NegotiatedProtocol != alpnMPA {
			return errors.New("the other end does not speak MPA within TLS (ALPN)")
		}
		if len(s.VerifiedChains) > 0 {
			for _, n := range s.PeerCertificates[0].DNSNames {
				if strings.Contains(n, "*") { // "MUST NOT" (Section 5.2.1); crypto/tls takes it
					return fmt.Errorf("the certificate of the other end is for %s, and RFC 9289 forbids a wildcard: make one with whole names", n)
				}
			}
		}
		if verify == nil {
			return nil
		}
		return verify(s)
	}
	return c
}

// shake shakes hands as a server on conn, of which first was read, and returns what protects it then.
func (t *TLS) shake(ctx context.Context, conn net.Conn, first []byte, proto string) (*tls.Conn, *tls.ConnectionState, error) {
	asked := false // for a certificate that nobody verifies
	ask := func(c *tls.Config) *tls.Config {
		c = rfc9289(c, proto)
		if asked = c.ClientAuth == tls.NoClientCert; asked {
			c.ClientAuth = tls.RequestClientCert
		}
		return c
	}
	c := ask(t.Config)
	if choose := c.GetConfigForClient; choose != nil {
		c.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			own, err := choose(h)
			if own != nil {
				own = ask(own)
			}
			return own, err
		}
	}
	// In a goroutine of its own, because its stack grows to several times what an idle connection takes, and this one rests.
	var secure *tls.Conn
	done := make(chan error)
	go func() {
		var err error
		secure, err = stream.Handshake(ctx, conn, first, c)
		done <- err
	}()
	if err := <-done; err != nil {
		return nil, nil, err
	}
	state := secure.ConnectionState()
	if asked {
		state.PeerCertificates = nil
	}
	return secure, &state, nil
}

// begun begins TLS on conn as a server, within Startup.Timeout. If it returns an error, conn is closed.
func (s *Server) begun(conn net.Conn, begin func() error) error {
	// It is charged as a new connection is, which it could be as well.
	err := s.admitted(conn, begin)
	if err == nil {
		return nil
	}
	if _, refused := errors.AsType[*rpc.LimitError](err); !refused {
		s.ctr.TLSFailed.Add(1)
	}
	_ = conn.Close() // crypto/tls has sent its alert
	err = s.gate.Ended(rpc.AsOpError(rpc.OpAccept, peeraddr.Of(conn), fmt.Errorf("TLS: %w", err)))
	s.gate.Stranger(peeraddr.Of(conn), err)
	return err
}

// serveTLS serves records within TLS, which begins on conn, or which conn is.
func (s *Server) serveTLS(conn net.Conn, by *Served, turn execute.Turn) error {
	var state *tls.ConnectionState
	err := s.begun(conn, func() (err error) {
		if t, theirs := conn.(*tls.Conn); theirs { // of a listener of crypto/tls
			err = t.HandshakeContext(s.ctx)
			state = stream.StateOf(t)
			return err
		}
		first := make([]byte, 1)
		if _, err = io.ReadFull(conn, first); err == nil {
			conn, state, err = s.cfg.TLS.shake(s.ctx, conn, first, alpnRecords)
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.serveRecords(conn, state, by, nil, false, turn)
}

// accept returns the connection on which a client of RDMA begins with MPA: conn, or TLS on it if its client begins that. It
// returns what protects it, too. first was read from conn, and rest from the result.
func (t *TLS) accept(ctx context.Context, conn net.Conn, first []byte) (_ net.Conn, rest []byte, _ *tls.ConnectionState, err error) {
	if c, theirs := conn.(*tls.Conn); theirs { // of a listener of crypto/tls
		err = c.HandshakeContext(ctx)
		return conn, first, stream.StateOf(c), err
	}
	if t.Config == nil {
		return conn, first, nil, nil
	}
	if _, card := conn.(rdmap.Device); card { // no octets pass that TLS could protect
		if t.demanded() {
			err = errClear
		}
		return conn, first, nil, err
	}
	if len(first) == 0 {
		first = make([]byte, 1)
		if _, err = io.ReadFull(conn, first); err != nil {
			return conn, nil, nil, requester.IgnoreEnd(err)
		}
	}
	if first[0] != stream.RecordHandshake {
		if t.demanded() { // not one call of a connection in clear may run
			err = errClear
		}
		return conn, first, nil, err
	}
	secure, state, err := t.shake(ctx, conn, first, alpnMPA)
	if err != nil {
		return conn, first, nil, fmt.Errorf("TLS: %w", err)
	}
	return secure, nil, state, nil
}

// secured is a connection that may be within TLS.
type secured interface {
	TLS() *tls.ConnectionState // nil: it is in clear
	Refuse(err error)          // ends it because of err
}

// addTLS counts a connection.
func addTLS(s *rpc.Stats, c any) {
	if c, ok := c.(secured); ok && c.TLS() != nil {
		s.TLSConns++
		if len(c.TLS().VerifiedChains) > 0 {
			s.MTLSConns++
		}
	}
}

// RecheckTLS asks Config.TLS.Config.VerifyConnection about all connections under TLS, and ends those that it refuses:
// call it when whom to trust has changed (RFC 9289 Section 5.2.1). VerifyConnection must know by then.
func (s *Server) RecheckTLS() error {
	if err := s.init(); err != nil {
		return err
	}
	var list []secured
	s.mu.Lock()
	for c := range s.conns {
		if c, ok := c.(secured); ok {
			list = append(list, c)
		}
	}
	s.mu.Unlock()
	s.cfg.TLS.recheck(list)
	return nil
}

// RecheckTLS is that of [Server], for the connections of a listener.
func (l *Listener) RecheckTLS() {
	l.mu.Lock()
	list := slices.Collect(maps.Keys(l.conns))
	l.mu.Unlock()
	l.cfg.TLS.recheck(list)
}

// recheck ends the connections that are not trusted any more.
func (t *TLS) recheck(list []secured) {
	for _, c := range list {
		if err := t.verify(c); err != nil {
			c.Refuse(err)
		}
	}
}

// verify asks Config.VerifyConnection about a connection.
func (t *TLS) verify(c any) error {
	s, ok := c.(secured)
	if !ok || t.Config == nil || t.Config.VerifyConnection == nil {
		return nil
	}
	state := s.TLS()
	if state == nil {
		return nil
	}
	return t.Config.VerifyConnection(*state)
}

// maxAnswer is more than a reply without results can have (RFC 5531 Section 9).
const maxAnswer = 1024

// probeProg is whom a client asks for TLS. Choice: the question is about the connection, so any program will do, but
// Linux answers only where it serves the program. NFS is what every server of RFC 9289 known has.
const probeProg, probeVers = 100003, 3

// client begins TLS on conn as a client: at once for MPA; for records it asks the server of conn for it before (RFC 9289
// Section 4.1), and returns conn itself if the server offers none and need not. On an error it closes conn.
func (t *TLS) client(ctx context.Context, conn net.Conn, name string, limit time.Duration, proto string) (net.Conn, error) {
	if _, done := conn.(*tls.Conn); t.Config == nil || done {
		return conn, nil
	}
	if _, card := conn.(rdmap.Device); card {
		_ = conn.Close() // nothing was sent on it
		return nil, ofTransport(setting.Error("TLS, but an RDMA card carries the connection, and protects nothing: leave TLS out, or connect over TCP"))
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c := rfc9289(t.Config, proto)
	if c.ServerName == "" {
		c.ServerName = name
	}
	secure, err := t.begin(ctx, conn, c, proto == alpnRecords)
	if err == nil {
		return secure, nil
	}
	_ = conn.Close() // the error above says more
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return nil, rpc.AsOpError(rpc.OpDial, peeraddr.Of(conn), fmt.Errorf("TLS: %w", err))
}

// begin begins TLS, and asks for it before.
func (t *TLS) begin(ctx context.Context, conn net.Conn, c *tls.Config, ask bool) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // it wakes whoever reads
	defer stop()
	if ask {
		if err := probe(conn); errors.Is(err, rpc.ErrNoTLS) && t.AllowClear && stop() {
			return conn, nil
		} else if err != nil {
			return nil, err
		}
	}
	secure := tls.Client(conn, c)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	if !stop() {
		return nil, context.Cause(ctx)
	}
	return secure, nil
}

// probe asks the server of conn for TLS. The error is ErrNoTLS if it offers none.
func probe(conn net.Conn) error {
	h := xdr.CallHeader{XID: rand.Uint32(), RPCVers: xdr.RPCVersion, Prog: probeProg, Vers: probeVers, Cred: xdr.Auth{Flavor: xdr.AuthTLS}}
	call := xdr.AppendCall(nil, &h)
	if _, err := conn.Write(append(xdr.AppendRecordMark(nil, len(call), true), call...)); err != nil {
		return err
	}
	answers := xdr.NewRecordReader(conn, maxAnswer)
	msg, err := answers.Next(nil)
	if err != nil {
		return err
	}
	var r xdr.ReplyHeader
	d := xdr.NewDecoder(msg)
	switch err := r.Parse(&d); {
	case err != nil:
		return err
	case r.XID != h.XID || len(answers.Buffered()) > 0: // nothing else was asked, so it comes from the path
		return errors.New("octets in clear that answer no question")
	case r.Denied || r.Verf.Flavor != xdr.AuthNone || !bytes.Equal(r.Verf.Body, []byte(stream.StartTLS)):
		return rpc.ErrNoTLS // accept_stat does not matter (Section 4.1)
	}
	return nil
}

// StartTLS asks the server of conn, which it takes, for TLS as cfg.TLS says (RFC 9289), for programs that speak record-marked
// RPC on a net.Conn by themselves. The result is conn if cfg.TLS is off, or allows that the server offers none. cfg.TLS needs
// a ServerName. ctx limits only the handshake.
func StartTLS(ctx context.Context, conn net.Conn, cfg *Config) (net.Conn, error) {
	return beginTLS(ctx, conn, cfg, alpnRecords)
}

// BeginTLS is like [StartTLS] for programs that begin with MPA (package rdmap): it asks nobody, and TLS is never left out.
func BeginTLS(ctx context.Context, conn net.Conn, cfg *Config) (net.Conn, error) {
	return beginTLS(ctx, conn, cfg, alpnMPA)
}

func beginTLS(ctx context.Context, conn net.Conn, cfg *Config, proto string) (net.Conn, error) {
	if err := given("connection", conn); err != nil {
		return nil, err
	}
	c, err := cfg.fill()
	if err == nil {
		err = given("context", ctx)
	}
	if err != nil {
		_ = conn.Close() // nothing was sent on it
		return nil, err
	}
	return c.TLS.client(ctx, conn, "", c.Startup.Timeout, proto)
}

// AcceptTLS is the server's end of [BeginTLS]: it takes conn and returns it, or TLS on it if that is what its client begins
// with. first has what was read of the result, for rdmap.Startup.BufferedInput. With cfg.TLS, and without AllowClear, a
// client in clear is refused. ctx and Startup.Timeout limit the handshake. On an error conn is closed.
func AcceptTLS(ctx context.Context, conn net.Conn, cfg *Config) (_ net.Conn, first []byte, err error) {
	if err := given("connection", conn); err != nil {
		return nil, nil, err
	}
	c, err := cfg.fill()
	if err == nil {
		err = given("context", ctx)
	}
	if err != nil {
		_ = conn.Close() // nothing was sent on it
		return nil, nil, err
	}
	inner, first, _, err := c.TLS.acceptIn(ctx, conn, c.Startup.Timeout)
	if err != nil {
		_ = conn.Close() // crypto/tls has sent its alert
		return nil, nil, rpc.AsOpError(rpc.OpAccept, peeraddr.Of(conn), err)
	}
	return inner, first, nil
}

// acceptIn is accept until ctx ends, or a time is over.
func (t *TLS) acceptIn(ctx context.Context, conn net.Conn, limit time.Duration) (net.Conn, []byte, *tls.ConnectionState, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // it wakes whoever reads
	defer stop()
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return conn, nil, nil, err
	}
	inner, first, state, err := t.accept(ctx, conn, nil)
	if err == nil {
		if !stop() {
			return inner, first, state, context.Cause(ctx)
		}
		err = conn.SetDeadline(time.Time{})
	}
	return inner, first, state, err
}
