package rpc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"strings"
	"syscall"

	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
)

// Op is the operation that failed with an [OpError].
type Op string

// Operations.
const (
	OpDial   Op = "dial"
	OpListen Op = "listen"
	OpAccept Op = "accept"
	OpCall   Op = "call"
	OpServe  Op = "serve"
	OpPull   Op = "pull"
	OpClose  Op = "close"
)

// ErrConfig is wrapped by the errors for settings out of range.
var ErrConfig = setting.ErrRange

// ErrNoTLS ends a client that requires TLS (transport.Config.TLS) of a server that does not offer it.
var ErrNoTLS = errors.New("the server does not offer TLS on this port")

// OpError says that a connection or a context ended. Err wraps net.ErrClosed,
// os.ErrDeadlineExceeded, the context's error, *verbs.ProtocolError (we refused the
// peer) or *verbs.TerminateError (it refused us).
type OpError struct {
	Op   Op
	Addr string // the peer, "" if unknown
	Err  error
}

// Error returns one line. It ends with what to do next, if that is known.
func (e *OpError) Error() string {
	s := "transport: " + string(e.Op)
	if e.Addr != "" {
		s += " " + e.Addr
	}
	s += ": " + cause(e.Err)
	if h := hint(e.Err); h != "" {
		s += " (" + h + ")"
	}
	return s
}

// cause returns err in one line, without the address, which OpError names.
func cause(err error) string {
	if e, ok := err.(*net.OpError); ok { //nolint:errorlint // the outermost only
		err = e.Err
	}
	return strings.ReplaceAll(err.Error(), "\n", ": ")
}

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }

// Timeout reports whether a deadline was the cause (net.Error).
func (e *OpError) Timeout() bool {
	return errors.Is(e.Err, os.ErrDeadlineExceeded) || errors.Is(e.Err, context.DeadlineExceeded)
}

// Rejected reports whether the peer refused the connection during the start-up (RFC 5044 Section
// 7.1.2): it does not serve this address, or has too many connections.
func (e *OpError) Rejected() bool {
	_, ok := errors.AsType[*verbs.RejectError](e.Err)
	return ok
}

// Temporary is always false (net.Error).
func (e *OpError) Temporary() bool { return false }

var _ net.Error = (*OpError)(nil)

// AsOpError wraps err as an OpError; nil stays nil and an OpError stays as it is.
func AsOpError(op Op, addr string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*OpError](err); ok {
		return err
	}
	return &OpError{Op: op, Addr: addr, Err: err}
}

// OutcomeError says that a call was sent and has no reply: the server may have run it, or not. If the
// call is not Repeatable, it was sent once.
type OutcomeError struct {
	XID, Prog, Vers, Proc uint32
	Sent                  int // times
	Repeatable            bool
	// Err is why there is no reply: an OpError, or the end of the context.
	Err error
}

// Error names the call by its XID, as packet captures do, and says what to do.
func (e *OutcomeError) Error() string {
	s := fmt.Sprintf("transport: call 0x%08x of program %#x, version %d, procedure %d: ", e.XID, e.Prog, e.Vers, e.Proc)
	why := e.Err
	if oe, ok := errors.AsType[*OpError](why); ok {
		why = oe.Err
	}
	s += "the server may or may not have run it: " + cause(why)
	if e.Repeatable {
		return s + fmt.Sprintf(" (it was sent %d times; look what the server has before you make the call again)", e.Sent)
	}
	return s + " (look what the server has before you make the call again; set Call.Repeatable for calls that may run twice, or whose replies the server keeps)"
}

// Unwrap returns the cause.
func (e *OutcomeError) Unwrap() error { return e.Err }

// Reason says why a call was refused.
type Reason uint8

// Reasons.
const (
	// ReasonVersion: the peer answered ERR_VERS (RFC 8166 Section 4.5.1).
	ReasonVersion Reason = iota + 1
	// ReasonChunk: the peer answered ERR_CHUNK: it could not use our chunks, or its
	// reply did not fit what we offered (RFC 8166 Section 4.5.3).
	ReasonChunk
	// ReasonBadReply: the reply broke the rules of RFC 8166 Section 4.
	ReasonBadReply
	// ReasonTooBig: the call exceeds MaxPayload, or its result the room for it: Err is a RoomError then.
	ReasonTooBig
	// ReasonBadCall: the Call is inconsistent; nothing was sent.
	ReasonBadCall
	// ReasonBackward: the backward direction cannot carry the call; nothing was sent. Err
	// is ErrBackwardOff, ErrBackwardPeer or rpcrdma.ErrInline.
	ReasonBackward
	// ReasonContext: there is no context of RPCSEC_GSS for the call, which was not sent. Err is the mechanism's, or a
	// *gss.StatusError of the server.
	ReasonContext
)

var reasonText = [...]string{
	ReasonVersion:  "the server does not speak RPC-over-RDMA version 1",
	ReasonChunk:    "the server refused the chunks of the call",
	ReasonBadReply: "the server's reply breaks RFC 8166",
	ReasonTooBig:   "too large",
	ReasonBadCall:  "the call is inconsistent",
	ReasonBackward: "not a call for the backward direction",
	ReasonContext:  "no context of RPCSEC_GSS",
}

// String describes the reason.
func (r Reason) String() string {
	if int(r) < len(reasonText) && r > 0 {
		return reasonText[r]
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}

// RPCError says that one call was refused; the connection lives on.
type RPCError struct { //nolint:revive // OpError is of connections: an rpc.Error would be both
	XID    uint32
	Reason Reason
	// Low and High are the versions of the peer, for ReasonVersion.
	Low, High uint32
	// Err is the cause, nil if Reason says it all.
	Err error
}

// Error names the call by its XID, as packet captures do.
func (e *RPCError) Error() string {
	s := fmt.Sprintf("transport: call 0x%08x: %s", e.XID, e.Reason)
	if e.XID == 0 { // refused before it had one
		s = fmt.Sprintf("transport: the call was not sent: %s", e.Reason)
	}
	if e.Reason == ReasonVersion {
		s += fmt.Sprintf(", it offers %d to %d", e.Low, e.High)
	}
	switch pe, ok := errors.AsType[*rpcrdma.ProtocolError](e.Err); {
	case ok: // the error names the XID already
		s += ": " + cause(pe.Err)
	case e.Err != nil:
		s += ": " + cause(e.Err)
	}
	return s
}

// Unwrap returns the cause.
func (e *RPCError) Unwrap() error { return e.Err }

// RoomError says that a result is larger than the room that the call gave for it, which is never exceeded, whichever way
// the result comes.
type RoomError struct {
	Room   int // octets: Call.Sink, MoreSinks and MaxResults, or Config.MaxPayload if that is less
	Result int // octets that the result takes; 0: unknown, as a server that refuses chunks does not tell
}

// Error names both sizes, and what to set.
func (e *RoomError) Error() string {
	if e.Result == 0 {
		return fmt.Sprintf("its result is larger than the room of %d octets (Call.Sink and MaxResults, at most Config.MaxPayload)", e.Room)
	}
	return fmt.Sprintf("its result of %d octets is larger than the room of %d (Call.Sink and MaxResults, at most Config.MaxPayload)", e.Result, e.Room)
}

// Limit names the limit that a client has reached.
type Limit string

// Limits at which something is refused. At other limits calls wait: see Stats.Waited.
const (
	LimitAllow         Limit = "not among the allowed clients (Limits.Allow)"
	LimitConns         Limit = "too many connections (Limits.Conns)"
	LimitClientConns   Limit = "too many connections of one client (Limits.PerClient.Conns)"
	LimitExposed       Limit = "too many octets of replies wait to be read (RFC5666.ExposedMemory)"
	LimitClientExposed Limit = "too many octets of replies to one client wait to be read (Limits.PerClient.Exposed)"
)

// LimitError reports that something was refused to a client. Max is the limit, 0 for [LimitAllow].
type LimitError struct {
	Limit  Limit
	Client string // its address, without the port
	Max    int64
}

// Error names the client and the setting.
func (e *LimitError) Error() string {
	s := "transport: client " + e.Client + " refused: " + string(e.Limit)
	if e.Max > 0 {
		s += fmt.Sprintf(", the limit is %d", e.Max)
	}
	return s
}

// SlowPeerError ends a connection whose peer kept this side waiting too long. It wraps
// os.ErrDeadlineExceeded.
type SlowPeerError struct {
	What string // what the peer did not do
}

// Error says what was waited for.
func (e *SlowPeerError) Error() string { return "transport: the peer " + e.What }

// Unwrap returns os.ErrDeadlineExceeded.
func (e *SlowPeerError) Unwrap() error { return os.ErrDeadlineExceeded }

// hint says what a user can do about err, "" if unknown.
func hint(err error) string {
	if h := startupHint(err); h != "" {
		return h
	}
	if h := tlsHint(err); h != "" {
		return h
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "is the server running, and is this its port?"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "is this the server's address?"
	case errors.Is(err, syscall.EADDRINUSE):
		return "another server has this port; choose another one"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "is this an address of this machine, with a port free?"
	case errors.Is(err, syscall.EACCES):
		return "ports below 1024 may need privileges; choose another one"
	}
	if _, ok := errors.AsType[*net.AddrError](err); ok {
		return "write host:port; NFS/RDMA is usually on port 20049"
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		if dns.Err == "unknown port" {
			return "write a port as a number"
		}
		return "is the host's name spelled right?"
	}
	return ""
}

// tlsHint is hint for the handshake of TLS.
func tlsHint(err error) string {
	if errors.Is(err, ErrNoTLS) {
		return "start it with a certificate, or allow calls in clear"
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok && e.Reason == x509.Expired {
		return "renew the certificate; are both clocks right?"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "use a name or an address that the certificate has, or make one that has this (subjectAltName)"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "is this the file of the CA that has signed the certificate of the other end?"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "what answers does not speak TLS"
	}
	e, ok := errors.AsType[*net.OpError](err)
	if !ok || e.Op != "remote error" { // as crypto/tls names what the other end has sent
		return ""
	}
	a := reflect.ValueOf(e.Err) // of a type that is not exported, with the values of AlertError
	if a.Kind() != reflect.Uint8 {
		return ""
	}
	switch tls.AlertError(a.Uint()) {
	case alertBadCertificate, alertUnknownCA, alertExpired:
		return "the other end does not accept this certificate: does it trust the CA that has signed it, and is it still valid?"
	case alertCertificateRequired:
		return "the other end wants a certificate of this one"
	case alertNoALPN:
		return "the other end wants another protocol than sunrpc: is this its port for RPC?"
	case alertVersion:
		return "the other end does not speak TLS 1.3"
	}
	return ""
}

// Alerts (RFC 8446 Section 6).
const (
	alertBadCertificate      tls.AlertError = 42
	alertExpired             tls.AlertError = 45
	alertUnknownCA           tls.AlertError = 48
	alertVersion             tls.AlertError = 70
	alertCertificateRequired tls.AlertError = 116
	alertNoALPN              tls.AlertError = 120
)

// startupHint is hint for errors before RPC begins.
func startupHint(err error) string {
	if _, ok := errors.AsType[*mpa.FormatError](err); ok {
		return "the peer is not an iWARP peer; NFS/RDMA is usually on port 20049, NFS/TCP on 2049"
	}
	if _, ok := errors.AsType[*verbs.RejectError](err); ok {
		return "it may not serve this address, or may be full: see its log"
	}
	e, ok := errors.AsType[*verbs.ConnError](err)
	if !ok || e.Op != "handshake" {
		return ""
	}
	switch {
	case errors.Is(e.Err, io.EOF), errors.Is(e.Err, io.ErrUnexpectedEOF), errors.Is(e.Err, syscall.ECONNRESET):
		return "the peer hung up during the MPA start-up; is it an iWARP peer, and is this the NFS/RDMA port?"
	case errors.Is(e.Err, os.ErrDeadlineExceeded):
		return "the peer does not answer the MPA start-up; is this the NFS/RDMA port?"
	}
	return ""
}
