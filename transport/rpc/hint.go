package rpc

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"reflect"
	"syscall"

	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

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
