package card

/*
#cgo CFLAGS: -O2 -Wall
#cgo LDFLAGS: -lrdmacm -libverbs
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Opcodes and flags of work requests, rights of registrations, statuses of completions.
const (
	opSend           uint32 = C.IBV_WR_SEND
	opSendInvalidate uint32 = C.IBV_WR_SEND_WITH_INV
	opWrite          uint32 = C.IBV_WR_RDMA_WRITE
	opRead           uint32 = C.IBV_WR_RDMA_READ

	flagSignaled  uint32 = C.IBV_SEND_SIGNALED
	flagSolicited uint32 = C.IBV_SEND_SOLICITED

	localWrite  = C.IBV_ACCESS_LOCAL_WRITE
	remoteRead  = C.IBV_ACCESS_REMOTE_READ
	remoteWrite = C.IBV_ACCESS_REMOTE_WRITE

	statusLength          uint32 = C.IBV_WC_LOC_LEN_ERR
	statusLocalQP         uint32 = C.IBV_WC_LOC_QP_OP_ERR
	statusLocalProtection uint32 = C.IBV_WC_LOC_PROT_ERR
	statusFlushed         uint32 = C.IBV_WC_WR_FLUSH_ERR
	statusRemoteRequest   uint32 = C.IBV_WC_REM_INV_REQ_ERR
	statusRemoteAccess    uint32 = C.IBV_WC_REM_ACCESS_ERR
	statusRemoteOperation uint32 = C.IBV_WC_REM_OP_ERR
	statusRetry           uint32 = C.IBV_WC_RETRY_EXC_ERR
	statusNoReceive       uint32 = C.IBV_WC_RNR_RETRY_EXC_ERR
)

func statusName(s uint32) string { return C.GoString(C.ibv_wc_status_str(s)) }

// wr is struct card_wr: one work request, with a payload in at most two pieces.
type wr struct {
	id                      uint64
	addr                    [2]uint64
	raddr                   uint64
	len, lkey               [2]uint32
	op, flags, rkey, pieces uint32
}

// wc is struct card_wc: one completion.
type wc struct {
	id                       uint64
	status, len, inv, hasInv uint32
}

var (
	_ [unsafe.Sizeof(wr{})]byte = [C.sizeof_struct_card_wr]byte{}
	_ [unsafe.Sizeof(wc{})]byte = [C.sizeof_struct_card_wc]byte{}
)

// queuePair is a queue pair with its completion queue. Its methods but interrupt and post are for one goroutine at a time.
type queuePair interface {
	post(wrs []wr) error // all or, with an error by which the connection ends, some
	recv(id uint64, s slot, n int) error
	poll(out []wc) (int, error)
	arm() error           // the next completion is to end wait
	rest(until time.Time) // sets the end of wait
	interrupt()           // ends wait now, or the next one, unless rest comes between
	wait() (bool, error)  // until a completion comes (true), until rest's time, or interrupt
	stop()                // everything that is posted comes back, and the peer is told
	destroy()             // nothing of it is touched by the card any more
}

// caps is what a device can do.
type caps struct {
	sends, recvs, reads int
	iwarp               bool
	inv                 uint32 // flag of a completion that has invalidated
	// soft says that posting writes to a file; see thread.go.
	soft bool
}

// capsOf asks the device.
func capsOf(v *C.struct_ibv_context) (caps, error) {
	var c C.struct_card_caps
	var rc C.int
	pristine(func() { rc = C.card_caps(v, &c) })
	if rc != 0 {
		return caps{}, fmt.Errorf("card: the device tells nothing of itself: %w", syscall.Errno(rc))
	}
	k := caps{
		sends: min(int(c.sends), maxSends), recvs: min(int(c.recvs), maxRecvs), reads: min(int(c.reads), maxReads),
		iwarp: c.iwarp != 0, inv: uint32(c.inv),
	}
	if n := int(c.cqes); n > 0 && k.sends+k.recvs > n {
		k.sends, k.recvs = n/3, n-n/3
	}
	// Software devices have no bus.
	if path, err := filepath.EvalSymlinks(C.GoString(&v.device.ibdev_path[0])); err != nil {
		k.soft = true // slower, and right with any device
	} else {
		k.soft = strings.Contains(path, "/virtual/")
	}
	return k, nil
}

// Depths of a queue pair. Choice: receives for 512 calls of a client and as many that come back from others, which is more
// than transport grants by default, and what a card keeps of it costs 100 KiB.
const (
	maxSends = 256
	maxRecvs = 1024
	maxReads = 16
)

// verbsDomain is a domain of libibverbs. That of librdmacm is not used: it ends with its last connection, and with it what
// was registered in it.
type verbsDomain struct{ pd *C.struct_ibv_pd }

func openDomain(v *C.struct_ibv_context) (domain, error) {
	d := new(verbsDomain)
	var rc C.int
	pristine(func() { rc = C.card_pd(v, &d.pd) })
	if rc != 0 {
		return nil, fmt.Errorf("card: no protection domain: %w", syscall.Errno(rc))
	}
	return d, nil
}

func (d *verbsDomain) register(mem []byte, access int) (*registration, error) {
	if access&remoteWrite != 0 {
		access |= localWrite // InfiniBand demands it
	}
	base := addrOf(mem)
	var mr *C.struct_ibv_mr
	var rc C.int
	pristine(func() { rc = C.card_reg(d.pd, C.uint64_t(base), C.uint64_t(len(mem)), C.int(access), &mr) })
	if rc != 0 {
		if errno := syscall.Errno(rc); errno != syscall.ENOMEM {
			return nil, fmt.Errorf("card: %d octets are not registered: %w", len(mem), errno)
		}
		return nil, errMemlock
	}
	return &registration{
		lkey: uint32(mr.lkey), rkey: uint32(mr.rkey), base: base,
		end: func() { pristine(func() { C.ibv_dereg_mr(mr) }) },
	}, nil
}

func (d *verbsDomain) close() { pristine(func() { C.ibv_dealloc_pd(d.pd) }) }

func addrOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// verbsPair is a queuePair of libibverbs.
type verbsPair struct {
	id   *C.struct_rdma_cm_id
	cc   *C.struct_ibv_comp_channel
	cq   *C.struct_ibv_cq
	qp   *C.struct_ibv_qp
	caps caps
	file *os.File // of cc, in the netpoller
	raw  syscall.RawConn
}

// newPair makes the queue pair of id.
func newPair(id *C.struct_rdma_cm_id, in domain, k caps) (queuePair, error) {
	p := &verbsPair{id: id, caps: k}
	dom, _ := in.(*verbsDomain)
	var rc C.int
	pristine(func() {
		rc = C.card_pair(id, dom.pd, C.int(k.sends), C.int(k.recvs), &p.cc, &p.cq)
	})
	if rc != 0 {
		return nil, fmt.Errorf("card: no queue pair of %d and %d: %w", k.sends, k.recvs, syscall.Errno(rc))
	}
	p.qp = id.qp
	var err error
	if p.file, p.raw, err = polled(int(p.cc.fd), "completions"); err != nil {
		p.destroy()
		return nil, err
	}
	return p, nil
}

// polled returns a file for fd, which stays librdmacm's, that the netpoller knows.
func polled(fd int, name string) (*os.File, syscall.RawConn, error) {
	if err := unix.SetNonblock(fd, true); err != nil { // of both
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	f := os.NewFile(uintptr(own), name)
	raw, err := f.SyscallConn()
	if err != nil {
		_ = f.Close()
	}
	return f, raw, err
}

// here runs f where the device permits it.
func (p *verbsPair) here(f func()) {
	if p.caps.soft {
		pristine(f)
	} else {
		f()
	}
}

func (p *verbsPair) post(wrs []wr) error {
	var rc, n C.int
	p.here(func() {
		rc = C.card_post(p.qp, (*C.struct_card_wr)(unsafe.Pointer(unsafe.SliceData(wrs))), C.int(len(wrs)), &n)
	})
	if rc != 0 {
		return &postError{posted: int(n), err: fmt.Errorf("card: ibv_post_send: %w", syscall.Errno(rc))}
	}
	return nil
}

// postError says how many of the work requests the card has taken: only those come back.
type postError struct {
	posted int
	err    error
}

func (e *postError) Error() string { return e.err.Error() }
func (e *postError) Unwrap() error { return e.err }

func (p *verbsPair) recv(id uint64, s slot, n int) error {
	rc := C.card_recv(p.qp, C.uint64_t(id), C.uint64_t(addrOf(s.mem)), C.uint32_t(n), C.uint32_t(s.in.reg.lkey))
	if rc != 0 {
		return fmt.Errorf("card: ibv_post_recv: %w", syscall.Errno(rc))
	}
	return nil
}

func (p *verbsPair) poll(out []wc) (int, error) {
	n := C.card_poll(p.cq, (*C.struct_card_wc)(unsafe.Pointer(unsafe.SliceData(out))), C.int(len(out)), C.uint32_t(p.caps.inv))
	if n < 0 {
		return 0, fmt.Errorf("card: ibv_poll_cq: %w", syscall.EIO)
	}
	return int(n), nil
}

func (p *verbsPair) arm() error {
	var rc C.int
	p.here(func() { rc = C.card_arm(p.cq) })
	if rc != 0 {
		return fmt.Errorf("card: ibv_req_notify_cq: %w", syscall.Errno(rc))
	}
	return nil
}

func (p *verbsPair) rest(until time.Time) { _ = p.file.SetReadDeadline(until) }
func (p *verbsPair) interrupt()           { _ = p.file.SetReadDeadline(time.Unix(1, 0)) }

func (p *verbsPair) wait() (bool, error) {
	var rc C.int
	err := p.raw.Read(func(uintptr) bool {
		rc = C.card_woken(p.cc)
		return rc != C.EAGAIN
	})
	switch {
	case os.IsTimeout(err):
		return false, nil
	case err == nil && rc != 0:
		err = syscall.Errno(rc)
	}
	return err == nil, err
}

func (p *verbsPair) stop() { pristine(func() { C.card_stop(p.id) }) }

func (p *verbsPair) destroy() {
	if p.file != nil {
		_ = p.file.Close()
	}
	pristine(func() {
		C.rdma_destroy_qp(p.id)
		C.ibv_destroy_cq(p.cq)
		C.ibv_destroy_comp_channel(p.cc)
	})
}
