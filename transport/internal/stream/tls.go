package stream

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// ErrToTLS ends the part of a connection in clear: the client has asked for TLS, and was told to begin.
var ErrToTLS = errors.New("transport: TLS begins on this connection")

// errClearAhead ends a connection on which more than a ClientHello follows the question for TLS.
var errClearAhead = errors.New("transport: octets in clear behind the call that asks for TLS")

// StartTLS is the verifier of a server that answers: begin (RFC 9289 Section 4.1).
const StartTLS = "STARTTLS"

// isProbe reports whether a call asks for TLS (RFC 9289 Section 4.1). Any other call with AUTH_TLS is refused as one
// with an unknown credential is. The program does not matter: the question is about the connection.
func isProbe(r *rpc.Request) bool {
	return r.RPCVers == xdr.RPCVersion && r.Proc == 0 && len(r.Args) == 0 &&
		r.Cred.Flavor == xdr.AuthTLS && len(r.Cred.Body) == 0 && r.Verf.Flavor == xdr.AuthNone && len(r.Verf.Body) == 0
}

// starttls answers the probe, when all calls before it are answered. Whoever waited for a turn to write finds the
// connection ended, so that nothing in clear follows.
func (c *Conn) starttls() bool {
	h := xdr.ReplyHeader{XID: c.probe, Verf: xdr.Auth{Body: []byte(StartTLS)}}
	c.s.ctr.Replies.Add(1)
	c.w.Lock(context.Background()) // and nothing is queued behind it
	defer c.w.Unlock()
	_, err := c.w.WriteLocked(time.Time{}, xdr.AppendReply(nil, &h), nil, nil, nil)
	return err == nil
}

// Below returns the connection that carries conn. Closing it neither waits nor tells the peer, as the Close of
// crypto/tls does for up to 5 s.
func Below(conn net.Conn) net.Conn {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	if b, ok := conn.(*begun); ok {
		conn = b.Conn
	}
	return conn
}

// begun is a connection of which the first octets were read.
type begun struct {
	net.Conn
	first []byte
}

func (b *begun) Read(p []byte) (int, error) {
	if len(b.first) == 0 {
		return b.Conn.Read(p)
	}
	n := copy(p, b.first)
	b.first = b.first[n:]
	return n, nil
}

// RecordHandshake is the first octet of TLS: of ContentType (RFC 8446 Section 5.1).
const RecordHandshake = 22

// Handshake takes conn, on which TLS begins with the octets in first, which were read, and shakes hands as a server.
func Handshake(ctx context.Context, conn net.Conn, first []byte, cfg *tls.Config) (*tls.Conn, error) {
	if first[0] != RecordHandshake { // crypto/tls would answer some calls, but nothing in clear may be answered
		return nil, errClearAhead
	}
	t := tls.Server(&begun{conn, first}, cfg)
	return t, t.HandshakeContext(ctx)
}

// StateOf returns what protects conn, nil if nothing does.
func StateOf(conn net.Conn) *tls.ConnectionState {
	if t, ok := conn.(*tls.Conn); ok {
		if s := t.ConnectionState(); s.HandshakeComplete {
			return &s
		}
	}
	return nil
}

// NameOf is what the log calls a connection of a network (RFC 9289 Section 7.1), by the words of exports(5).
func NameOf(network string, s *tls.ConnectionState) string {
	if s == nil {
		return network
	}
	name := "tls"
	if len(s.VerifiedChains) > 0 {
		name = "mtls: " + s.PeerCertificates[0].Subject.String()
	}
	if network == "rdma" {
		name = "rdma+" + name
	}
	return name
}
