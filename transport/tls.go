package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/transport/internal/calls"
	"github.com/stag-rdma/stag/transport/internal/execute"
	"github.com/stag-rdma/stag/transport/internal/stream"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// TLS switches on RPC with TLS (RFC 9289) for record-marked TCP, at either end. The zero value is: off. With a Config
// it is required; with AllowClear too, it is allowed.
type TLS struct {
	// Config has certificates and whom to trust: on a server Certificates, and ClientCAs with ClientAuth for
	// certificates of clients (mutual TLS); on a client RootCAs, and Certificates if it has one. It is copied.
	// Versions below 1.3 and resumption are off, and ALPN is "sunrpc", whatever it says. If ServerName is empty,
	// DialStream takes it from the address.
	Config *tls.Config

	// AllowClear lets a server run calls of connections in clear too, and a client go on in clear if the server does
	// not offer TLS, which anybody on the path can bring about. If false, a server answers such calls with
	// AUTH_TOOWEAK and refuses connections of RDMA, and a client ends with [rpc.ErrNoTLS].
	AllowClear bool
}

// alpn is the protocol that both ends offer (RFC 9289 Section 5.1). Choice: neither demands it, since Linux's tlshd
// 1.0 sends none. A peer that offers only others is refused.
const alpn = "sunrpc"

var errClear = errors.New("transport: this server requires TLS, which RDMA connections do not have")

func (t *TLS) demanded() bool { return t.Config != nil && !t.AllowClear }

// rfc9289 returns a copy of c with what RFC 9289 demands.
func rfc9289(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.MinVersion, c.MaxVersion = tls.VersionTLS13, tls.VersionTLS13
	c.NextProtos = []string{alpn}
	c.SessionTicketsDisabled = true      // a session that goes on would outlive a change of whom to trust
	c.DynamicRecordSizingDisabled = true // no octet of a record is of use before its last one
	return c
}

// server returns the Config of one connection.
func (t *TLS) server() *tls.Config {
	c := rfc9289(t.Config)
	if choose := c.GetConfigForClient; choose != nil {
		c.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			own, err := choose(h)
			if own != nil {
				own = rfc9289(own)
			}
			return own, err
		}
	}
	return c
}

// serveTLS serves records within TLS, which begins on conn, or which conn is.
func (s *Server) serveTLS(conn net.Conn, h rpc.Handler, turn execute.Turn) error {
	t, theirs := conn.(*tls.Conn)
	// It is charged as a new connection is, which it could be as well.
	err := s.admitted(conn, func() (err error) {
		if theirs { // of a listener of crypto/tls
			return t.HandshakeContext(s.ctx)
		}
		t, err = stream.Handshake(s.ctx, conn, s.cfg.TLS.server())
		return err
	})
	if err != nil {
		_ = conn.Close() // crypto/tls has sent its alert
		err = s.gate.Ended(rpc.AsOpError(rpc.OpAccept, calls.PeerAddr(conn), fmt.Errorf("TLS: %w", err)))
		s.gate.Stranger(calls.PeerAddr(conn), err)
		return err
	}
	return s.serveRecords(t, h, nil, false, turn)
}

// RecheckTLS asks Config.TLS.Config.VerifyConnection about all connections under TLS, and ends those that it refuses:
// call it when whom to trust has changed (RFC 9289 Section 5.2.1). VerifyConnection must know by then.
func (s *Server) RecheckTLS() error {
	if err := s.init(); err != nil {
		return err
	}
	var list []*stream.Conn
	s.mu.Lock()
	for c := range s.conns {
		if c, ok := c.(*stream.Conn); ok {
			list = append(list, c)
		}
	}
	s.mu.Unlock()
	for _, c := range list {
		if err := s.cfg.TLS.verify(c.TLS()); err != nil {
			c.Refuse(err)
		}
	}
	return nil
}

// verify asks Config.VerifyConnection.
func (t *TLS) verify(state *tls.ConnectionState) error {
	if state == nil || t.Config == nil || t.Config.VerifyConnection == nil {
		return nil
	}
	return t.Config.VerifyConnection(*state)
}

// addStream adds a connection of records. Whom to trust may have changed since its handshake: from here on, RecheckTLS
// finds it.
func (s *Server) addStream(c *stream.Conn) error {
	if err := s.addConn(c); err != nil {
		return err
	}
	err := s.cfg.TLS.verify(c.TLS())
	if err != nil {
		s.dropConn(c)
	}
	return err
}

// maxAnswer is more than a reply without results can have (RFC 5531 Section 9).
const maxAnswer = 1024

// probeProg is whom a client asks for TLS. Choice: the question is about the connection, so any program will do, but
// Linux answers only where it serves the program. NFS is what every server of RFC 9289 known has.
const probeProg, probeVers = 100003, 3

// client asks the server of conn for TLS and begins it (RFC 9289 Section 4.1). It returns conn itself if the server offers
// none and need not. On an error it closes conn.
func (t *TLS) client(ctx context.Context, conn net.Conn, name string, limit time.Duration) (net.Conn, error) {
	if _, done := conn.(*tls.Conn); t.Config == nil || done {
		return conn, nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	secure, err := t.begin(ctx, conn, name)
	if err == nil {
		return secure, nil
	}
	_ = conn.Close() // the error above says more
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return nil, rpc.AsOpError(rpc.OpDial, calls.PeerAddr(conn), fmt.Errorf("TLS: %w", err))
}

func (t *TLS) begin(ctx context.Context, conn net.Conn, name string) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // it wakes whoever reads
	defer stop()
	h := xdr.CallHeader{XID: rand.Uint32(), RPCVers: xdr.RPCVersion, Prog: probeProg, Vers: probeVers, Cred: xdr.Auth{Flavor: xdr.AuthTLS}}
	call := xdr.AppendCall(nil, &h)
	if _, err := conn.Write(append(xdr.AppendRecordMark(nil, len(call), true), call...)); err != nil {
		return nil, err
	}
	answers := xdr.NewRecordReader(conn, maxAnswer)
	msg, err := answers.Next(nil)
	if err != nil {
		return nil, err
	}
	var r xdr.ReplyHeader
	d := xdr.NewDecoder(msg)
	switch err := r.Parse(&d); {
	case err != nil:
		return nil, err
	case r.XID != h.XID || len(answers.Buffered()) > 0: // nothing else was asked, so it comes from the path
		return nil, errors.New("octets in clear that answer no question")
	case r.Denied || r.Verf.Flavor != xdr.AuthNone || !bytes.Equal(r.Verf.Body, []byte(stream.StartTLS)):
		// accept_stat does not matter (Section 4.1)
		if t.AllowClear && stop() {
			return conn, nil
		}
		return nil, rpc.ErrNoTLS
	}
	c := rfc9289(t.Config)
	if c.ServerName == "" {
		c.ServerName = name
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

// noTLS refuses TLS where this package does not have it: nothing must run in clear that was to be protected.
func (c *Config) noTLS() error {
	if c.TLS.Config != nil {
		return ofTransport(setting.Error("TLS for RDMA, or for a listener: only record-marked TCP of DialStream and Server has it"))
	}
	return nil
}
