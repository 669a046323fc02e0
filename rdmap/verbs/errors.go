package verbs

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/stag-rdma/stag/internal/setting"
)

// Misuse of the API. Nothing is sent when one of these is returned.
var (
	// ErrConfig is wrapped by the errors for settings out of range.
	ErrConfig = setting.ErrRange
	// ErrBadWR: the fields of the work request do not fit its Op.
	ErrBadWR = errors.New("rdmap: malformed work request (verbs.WR has a table of what each Op uses)")
	// ErrTooLong: a payload of 2^32 octets or more.
	ErrTooLong = errors.New("rdmap: message longer than 2^32-1 octets")
	// ErrNoHandshake: the connection has not finished its startup.
	ErrNoHandshake = errors.New("rdmap: handshake not done (call Conn.Handshake first)")
	// ErrSendQueueFull: Config.SendQueue octets are already waiting.
	ErrSendQueueFull = errors.New("rdmap: send queue full (post again once a work request has completed, or raise Config.SendQueue)")
	// ErrNoORD: a request, such as a Read, on a connection whose negotiated ORD is 0.
	ErrNoORD = errors.New("rdmap: no requests permitted: ORD is 0 (set Startup.ORD here and Startup.IRD at the peer)")
	// ErrNoExtension: the operation belongs to an extension that is not in force; see
	// ConnectionState.Extensions.
	ErrNoExtension = errors.New("rdmap: operation needs an extension that is not in force (set Startup.Extensions on both sides)")
	// ErrHasHandler: Recv on a connection whose messages go to a Handler.
	ErrHasHandler = errors.New("rdmap: messages go to the connection's Handler (take them in HandleRecv, or leave Config.Handler nil)")
	// ErrServing: a second Serve on one connection.
	ErrServing = errors.New("rdmap: connection is already served")
	// ErrPanic: a Handler, or a package of this module, has panicked on what the peer has sent. The panic and its stack are
	// in the text.
	ErrPanic = errors.New("panic: a bug, please report it")
)

// ErrSinkLost: when the Read Request was built, the sink of the Read had been invalidated, lacked
// the right ReadSink, or was too small. A LocalError wraps it, and the connection ends, because
// messages leave in the order of posting or not at all. Cancelling a Read does not cause it.
var ErrSinkLost = errors.New("rdmap: sink of a Read is no longer registered with the right ReadSink; invalidate it only after the Read")

// ErrOlderPeer: the peer closed the connection instead of sending its Reply. It may know RFC
// 5044 alone, by which a Request of revision 2 is malformed; the initiator "MAY" try again on a new
// connection with Startup.Revision 1 (RFC 6581 Section 10).
var ErrOlderPeer = errors.New("rdmap: peer closed instead of answering; if it knows only MPA revision 1, connect again with Startup.Revision 1")

// ErrUnfinishedSend: the peer did not finish a Send in time, while other connections waited for
// the Pool memory that the Send held; see Timeouts.Memory. A LocalError wraps it.
var ErrUnfinishedSend = errors.New("rdmap: peer left a Send unfinished while others waited for its memory")

// ErrPartialFPDU: the peer began an FPDU and did not complete it within Timeouts.FPDU. It wraps
// os.ErrDeadlineExceeded; a ConnError wraps it.
var ErrPartialFPDU = fmt.Errorf("rdmap: peer began an FPDU and did not finish it: %w", os.ErrDeadlineExceeded)

// ErrClosed is the error of a connection that this side has closed. It wraps net.ErrClosed.
var ErrClosed = fmt.Errorf("rdmap: %w", net.ErrClosed)

// ProtocolError says that the peer broke the protocol.
type ProtocolError struct {
	Code    TermCode
	Section string // of the broken rule, such as "RFC 5041 Section 7.1"
	Msg     string // what was wrong, with got and want
	Err     error  // cause, may be nil

	// Terminate is what the peer was told: Code, and the headers of the faulty segment (RFC 5040
	// Section 4.8). Nil: the protocol permits no Terminate. It must not be changed.
	Terminate *Terminate
}

// Error implements error.
func (e *ProtocolError) Error() string {
	s := "rdmap: peer broke the protocol: " + e.Msg + " (" + e.Section + "), Terminate " + e.Code.String()
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *ProtocolError) Unwrap() error { return e.Err }

// TerminateError says that the peer sent a Terminate: in its view we broke the protocol. The
// content is only a diagnostic; see Terminate.
type TerminateError struct{ Terminate Terminate }

// Error implements error.
func (e *TerminateError) Error() string {
	return "rdmap: peer sent Terminate " + e.Terminate.String()
}

// LocalError says that this side ended the connection with a Terminate that carries Code; see
// Conn.Terminate.
type LocalError struct {
	Code TermCode
	Err  error // may be nil
}

// Error implements error.
func (e *LocalError) Error() string {
	s := "rdmap: terminated by this side, " + e.Code.String()
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *LocalError) Unwrap() error { return e.Err }

// RejectError says that the peer's upper layer refused the connection (R=1 in
// the MPA Reply, RFC 5044 Section 7.1.2).
type RejectError struct {
	PrivateData []byte // of the Reply; belongs to the error
	IRD, ORD    int    // of the Reply; -1 if it has none
}

// Error implements error.
func (e *RejectError) Error() string { return "rdmap: connection rejected by the peer" }

// ConnError says that the underlying byte stream failed, ended or timed out.
type ConnError struct {
	Op  string // "handshake", "read", "write", "close"
	Err error
}

// Error implements error.
func (e *ConnError) Error() string { return "rdmap: " + e.Op + ": " + e.Err.Error() }

// Unwrap returns the cause and net.ErrClosed, so that one check finds every
// dead connection.
func (e *ConnError) Unwrap() []error { return []error{e.Err, net.ErrClosed} }

// Timeout reports whether the cause is a timeout.
func (e *ConnError) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.As(e.Err, &t) && t.Timeout()
}
