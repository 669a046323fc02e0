package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/stag-rdma/stag/nfsdemo/internal/exports"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/transport/rpc"
)

// errReported is a failure whose errors have been printed.
var errReported = errors.New("reported")

// usageError reports a command line that was not understood.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

// usagef makes a usageError.
func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// exitStatus chooses the exit status for an error.
func exitStatus(err error) int {
	if _, ok := errors.AsType[*usageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[*nfsclient.URLError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[*exports.Error](err); ok {
		return exitUsage
	}
	if errors.Is(err, errMachine) {
		return exitMachine
	}
	if e, ok := errors.AsType[*interruptError](err); ok {
		return e.status()
	}
	if errors.Is(err, rpc.ErrConfig) {
		return exitUsage // the settings come from flags
	}
	return exitFailed
}

// explain turns an error into one line that says what to do.
func explain(err error) string {
	s := reason(err)
	if h := hint(err); h != "" {
		s += ": " + h
	}
	s = quoteName(strings.ReplaceAll(s, "\n", "; ")) // a server may have chosen a part of it
	// A path may have 4096 octets, and then what is wrong is hard to find.
	const most, edge = 1000, 400
	if len(s) > most {
		s = strings.ToValidUTF8(s[:edge], "") + " ... " + strings.ToValidUTF8(s[len(s)-edge:], "")
	}
	return s
}

// reason says what is wrong, in the words of the layer that knows best.
func reason(err error) string {
	if de, ok := errors.AsType[*dialError](err); ok {
		return dialReason(de)
	}
	oe, ok := errors.AsType[*rpc.OpError](err)
	if !ok || oe.Op != rpc.OpCall {
		return err.Error()
	}
	what := ""
	if ae, ok := errors.AsType[*argError](err); ok {
		what = ae.arg + ": "
	} else if pe, ok := errors.AsType[*fs.PathError](err); ok {
		what = pe.Path + ": "
	}
	return what + lost(oe)
}

// lost says why a connection is gone. One that could not be opened again has its address in the cause.
func lost(oe *rpc.OpError) string {
	if oe.Addr == "" {
		return fmt.Sprintf("connection lost: %v", oe.Err)
	}
	return fmt.Sprintf("connection to %s lost: %v", oe.Addr, oe.Err)
}

// ofCard returns why a card does not connect, nil if it is something else.
func ofCard(err error) error {
	if ne, ok := errors.AsType[*net.OpError](err); ok && ne.Net == "rdma" {
		return ne.Err
	}
	return nil
}

// dialReason says why a server could not be used.
func dialReason(e *dialError) string {
	switch {
	case errors.Is(e, syscall.ECONNREFUSED):
		by := e.u.Addr()
		if oe, ok := errors.AsType[*net.OpError](e.err); ok && oe.Addr != nil { // it may be that of MOUNT
			by = oe.Addr.String()
		}
		return e.u.String() + ": connection refused by " + by
	case isTimeout(e):
		return fmt.Sprintf("%s: no answer from %s in time", e.u, e.u.Addr())
	}
	if dns, ok := errors.AsType[*net.DNSError](e.err); ok && dns.IsNotFound {
		return fmt.Sprintf("%s: no such host %q", e.u, dns.Name)
	}
	if why := ofCard(e.err); why != nil { // which says what to do
		return fmt.Sprintf("%s: %v", e.u, why)
	}
	if oe, ok := errors.AsType[*rpc.OpError](e.err); ok {
		if oe.Rejected() {
			return fmt.Sprintf("%s: %s refused the connection", e.u, e.u.Addr())
		}
		if oe.Op == rpc.OpDial && e.u.Scheme == nfsclient.SchemeRDMA && !e.u.TLS && hungUp(e.err) {
			return fmt.Sprintf("%s: no iWARP peer at %s: it closed the connection during the start-up", e.u, e.u.Addr())
		}
		if oe.Op == rpc.OpDial && e.u.Scheme == nfsclient.SchemeRDMA && !e.u.TLS && !errors.Is(oe, rpc.ErrConfig) {
			return fmt.Sprintf("%s: no iWARP peer at %s (%v)", e.u, e.u.Addr(), oe.Err)
		}
		if oe.Op == rpc.OpDial { // whose message says what to do
			return fmt.Sprintf("%s: no connection to %s", e.u, strings.TrimPrefix(oe.Error(), "transport: dial "))
		}
		return e.u.String() + ": " + lost(oe)
	}
	return e.Error()
}

// isTimeout reports whether nobody answered.
func isTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

// hungUp reports whether the peer ended the connection.
func hungUp(err error) bool {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

// hint says what a user can do; "" if there is nothing to say.
func hint(err error) string {
	if de, ok := errors.AsType[*dialError](err); ok {
		return dialHint(de)
	}
	if _, remote := errors.AsType[*nfsclient.StatusError](err); remote && errors.Is(err, fs.ErrPermission) {
		return "the server checks the user id (see --uid and --gid), may map root to nobody, and may want Kerberos (--sec)"
	}
	if oe, lost := errors.AsType[*rpc.OutcomeError](err); lost && oe.Prog == nfs3.Program && !nfs3.Proc(oe.Proc).Idempotent() {
		return "the server may or may not have done it: look before you try again"
	}
	return "" // an OpError of the transport has its own hint
}

// dialHint says what to do about a server that could not be used.
func dialHint(e *dialError) string {
	rdma := e.u.Scheme == nfsclient.SchemeRDMA
	me, mount := errors.AsType[*nfsclient.MountError](e.err)
	_, export := errors.AsType[*nfsclient.ExportError](e.err)
	_, service := errors.AsType[*nfsclient.MountServiceError](e.err)
	_, refused := errors.AsType[*nfsclient.StatusError](e.err)
	switch {
	case export, service:
		return ""
	case refused && errors.Is(e.err, fs.ErrPermission):
		return "the export may want TLS (--tls-ca, with --tls-cert for mtls), or a port below 1024 (--reserved-port)"
	case mount && errors.Is(me, fs.ErrPermission):
		return "the server may not admit this host, or may require --reserved-port"
	case mount:
		return ""
	case errors.Is(e.err, syscall.ECONNREFUSED):
		return "start the server, or give its port as host:port"
	case e.reservedPort && errors.Is(e.err, fs.ErrPermission):
		return "--reserved-port needs privileges: run as root, or leave it out"
	case errors.Is(e.err, syscall.EHOSTUNREACH), errors.Is(e.err, syscall.ENETUNREACH):
		return "check the address"
	case isTimeout(e.err):
		return otherScheme(rdma, "check the host, the port and the firewall; ")
	case e.u.TLS && hungUp(e.err):
		return "does this port have TLS (nfsdemo serve --tls-cert)?"
	case e.u.TLS:
		return "" // the error of TLS says it
	case hungUp(e.err), errors.Is(e.err, net.ErrClosed):
		return otherScheme(rdma, "")
	}
	switch oe, ok := errors.AsType[*rpc.OpError](e.err); {
	case ok && oe.Rejected():
		return "it may not serve this address, or may be full: see its log"
	case ofCard(e.err) != nil:
		return ""
	case ok && oe.Op == rpc.OpDial && rdma:
		return otherScheme(rdma, "")
	}
	return ""
}

// otherScheme suggests the URL scheme of the other transport.
func otherScheme(rdma bool, first string) string {
	if rdma {
		return first + "if this is not an iWARP port but NFS over TCP, use nfs://"
	}
	return first + "if this is an NFS/RDMA port, use nfs+rdma://"
}
