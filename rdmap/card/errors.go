package card

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/stag-rdma/stag/rdmap/verbs"
)

var (
	// ErrNoDevice: no RDMA device has the address to listen on, or leads to the one to dial.
	ErrNoDevice = errors.New("no RDMA device has or reaches this address: see `rdma link` and `ip address`; soft RoCE is added by `rdma link add rxe0 type rxe netdev eth0`")
	// ErrNoRDMA: this kernel has no connection manager for RDMA.
	ErrNoRDMA = errors.New("no RDMA here: load the driver of the card, and rdma_ucm, which makes /dev/infiniband/rdma_cm")
	// ErrMemory: Config.Memory, or what the system lets be locked, is used up.
	ErrMemory = errors.New("card: no registered memory left: connections share Config.Memory (stagcard --card-memory)")
	// errMemlock is ErrMemory with what to do if the system keeps the memory back.
	errMemlock = fmt.Errorf("%w: let the process lock more (ulimit -l unlimited; in a unit of systemd LimitMEMLOCK=infinity) or ask for less", ErrMemory)
	// ErrRemoved ends the connections of a device that was removed.
	ErrRemoved = errors.New("card: the RDMA device was removed")
)

// cmError says what an error of the connection manager means to its user.
func cmError(errno syscall.Errno) error {
	switch errno {
	case syscall.ENODEV, syscall.EADDRNOTAVAIL:
		return fmt.Errorf("%w (%w)", ErrNoDevice, errno)
	case syscall.ENOENT:
		return fmt.Errorf("%w (%w)", ErrNoRDMA, errno)
	case syscall.EACCES, syscall.EPERM:
		return fmt.Errorf("%w: read and write access to /dev/infiniband/rdma_cm and uverbs* is needed", errno)
	case syscall.ENOMEM:
		return fmt.Errorf("%w: %w", errMemlock, errno)
	case syscall.ETIMEDOUT:
		return fmt.Errorf("%w (%w)", os.ErrDeadlineExceeded, errno)
	default:
		return errno
	}
}

// rejectNoService is a reason of InfiniBand (12.6.7.2): nobody listens on that port.
const rejectNoService = 8

// refused is the error of a REJECTED event.
func refused(ev *event) error {
	if ev.status == rejectNoService {
		return &verbs.ConnError{Op: "handshake", Err: syscall.ECONNREFUSED}
	}
	return &verbs.RejectError{PrivateData: ev.private, IRD: -1, ORD: -1}
}

// completionError is the error of a work request that failed with an ibv_wc_status, by which its connection ends. The
// kinds are those of the engine: the peer broke the protocol, the peer says that we did, we did, or the path failed.
func completionError(status uint32, recv bool) error {
	name := statusName(status)
	switch {
	case status == statusFlushed: // the CM says why, or else:
		return &verbs.ConnError{Op: "read", Err: syscall.ECONNRESET}
	case recv && status == statusLength:
		return &verbs.ProtocolError{
			Code: verbs.TermCode{Layer: verbs.LayerDDP, EType: 2, Code: 5}, Section: "RFC 5041 Section 7.2", Msg: "a Send longer than the receive",
		}
	case status == statusRemoteAccess: // a NAK: what RDMAP says by a Terminate
		return &verbs.TerminateError{Terminate: verbs.Terminate{Code: verbs.TermCode{Layer: verbs.LayerRDMAP, EType: 1, Code: 0xff}}}
	case status == statusRemoteRequest, status == statusRemoteOperation:
		return &verbs.TerminateError{Terminate: verbs.Terminate{Code: verbs.TermCode{Layer: verbs.LayerRDMAP, EType: 2, Code: 0xff}}}
	case status == statusRetry, status == statusNoReceive:
		return &verbs.ConnError{Op: "write", Err: fmt.Errorf("%s: %w", name, os.ErrDeadlineExceeded)}
	case status == statusLength, status == statusLocalQP, status == statusLocalProtection:
		return &verbs.LocalError{Err: errors.New(name)}
	}
	return &verbs.ConnError{Op: "read", Err: errors.New(name)}
}
