package lockd

import (
	"fmt"
	"math"

	"github.com/stag-rdma/stag/xdr"
)

// This file has the Network Lock Manager protocol (The Open Group, Protocols for Interworking: XNFS,
// Version 3W, chapters 10 and 14): constants, and the codec of arguments and results, in both directions, of versions 1
// and 3, whose offsets have 32 bits, and 4, whose offsets have 64.
//
//	proc    name                     arguments    results
//	1, 6    TEST, TEST_MSG           TestArgs     TestRes
//	2, 7    LOCK, LOCK_MSG           LockArgs     Res
//	3, 8    CANCEL, CANCEL_MSG       CancelArgs   Res
//	4, 9    UNLOCK, UNLOCK_MSG       UnlockArgs   Res
//	5, 10   GRANTED, GRANTED_MSG     TestArgs     Res
//	11-15   *_RES                    the results of the _MSG calls
//	20, 21  SHARE, UNSHARE           ShareArgs    ShareRes
//	22      NM_LOCK                  LockArgs     Res
//	23      FREE_ALL                 FreeAllArgs  void
//
// A _MSG call has no results; these come as a call of the _RES procedure in the other direction. Everything that Parse
// returns is a view of its input.

// Program is the RPC program. Version 2 is another protocol, between a machine's own daemons.
const (
	NLMProgram = 100021
	Version1   = 1
	Version3   = 3 // adds SHARE to FREE_ALL
	Version4   = 4 // has offsets of 64 bits
)

// Limits of the protocol, in octets.
const (
	MaxNLMName = 1024 // LM_MAXSTRLEN
	MaxObject  = 1024 // MAXNETOBJ_SZ
)

// Proc is a procedure number.
type Proc uint32

// Procedures.
const (
	NLMProcNull    Proc = 0
	ProcTest       Proc = 1
	ProcLock       Proc = 2
	ProcCancel     Proc = 3
	ProcUnlock     Proc = 4
	ProcGranted    Proc = 5
	ProcTestMsg    Proc = 6
	ProcLockMsg    Proc = 7
	ProcCancelMsg  Proc = 8
	ProcUnlockMsg  Proc = 9
	ProcGrantedMsg Proc = 10
	ProcTestRes    Proc = 11
	ProcLockRes    Proc = 12
	ProcCancelRes  Proc = 13
	ProcUnlockRes  Proc = 14
	ProcGrantedRes Proc = 15
	ProcShare      Proc = 20
	ProcUnshare    Proc = 21
	ProcNMLock     Proc = 22
	ProcFreeAll    Proc = 23
	NLMProcCount        = 24
)

// Status is an nlm4_stats. Before version 4 there are only those up to DeniedGrace.
type Status uint32

// Statuses.
const (
	Granted       Status = 0
	Denied        Status = 1
	DeniedNoLocks Status = 2
	Blocked       Status = 3
	DeniedGrace   Status = 4
	Deadlock      Status = 5
	ReadOnly      Status = 6
	Stale         Status = 7
	TooBig        Status = 8
	Failed        Status = 9
)

var statusNames = [...]string{
	"GRANTED", "DENIED", "DENIED_NOLOCKS", "BLOCKED", "DENIED_GRACE_PERIOD", "DEADLCK", "ROFS", "STALE_FH", "FBIG", "FAILED",
}

// String returns the name of the specification, without its prefix.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("nlm4_stats(%d)", uint32(s))
}

// in returns the status that a version has for s.
func (s Status) in(vers uint32) Status {
	if vers < Version4 && s > DeniedGrace {
		return DeniedNoLocks
	}
	return s
}

// Lock is an nlm_lock.
type Lock struct {
	Caller      []byte // the client's name
	File        []byte // its handle
	Owner       []byte // who asks, at the client
	ID          uint32 // svid: the process
	Offset, Len uint64 // Len 0: to the end of the file
}

// octets are an offset or a length of a version.
func octets(d *xdr.Decoder, vers uint32) uint64 {
	if vers < Version4 {
		return uint64(d.Uint32())
	}
	return d.Uint64()
}

// appendRange appends an offset and a length. Where they do not fit, they become the nearest that do.
func appendRange(b []byte, off, n uint64, vers uint32) []byte {
	if vers >= Version4 {
		return xdr.AppendUint64(xdr.AppendUint64(b, off), n)
	}
	if n > math.MaxUint32 {
		n = 0
	}
	return xdr.AppendUint32(xdr.AppendUint32(b, uint32(min(off, math.MaxUint32))), uint32(n))
}

func (l *Lock) append(b []byte, vers uint32) []byte {
	b = xdr.AppendOpaque(b, l.Caller)
	b = xdr.AppendOpaque(b, l.File)
	b = xdr.AppendOpaque(b, l.Owner)
	b = xdr.AppendUint32(b, l.ID)
	return appendRange(b, l.Offset, l.Len, vers)
}

func (l *Lock) parse(d *xdr.Decoder, vers uint32) {
	l.Caller, l.File, l.Owner = d.Opaque(MaxNLMName), d.Opaque(MaxObject), d.Opaque(MaxObject)
	l.ID = d.Uint32()
	l.Offset = octets(d, vers)
	l.Len = octets(d, vers)
}

// LockArgs is the arguments of LOCK, LOCK_MSG and NM_LOCK.
type LockArgs struct {
	Cookie    []byte
	Block     bool // wait, and be told by GRANTED
	Exclusive bool
	Lock      Lock
	Reclaim   bool   // it was held before the server went down
	State     uint32 // the client's state (see NSM)
}

// Append appends the arguments as a version has them.
func (a *LockArgs) Append(b []byte, vers uint32) []byte {
	b = xdr.AppendBool(xdr.AppendBool(xdr.AppendOpaque(b, a.Cookie), a.Block), a.Exclusive)
	b = a.Lock.append(b, vers)
	return xdr.AppendUint32(xdr.AppendBool(b, a.Reclaim), a.State)
}

// Parse reads the arguments. The error is a *xdr.DecodeError.
func (a *LockArgs) Parse(d *xdr.Decoder, vers uint32) error {
	a.Cookie, a.Block, a.Exclusive = d.Opaque(MaxObject), d.Bool(), d.Bool()
	a.Lock.parse(d, vers)
	a.Reclaim, a.State = d.Bool(), d.Uint32()
	return d.ErrIn("nlm_lockargs")
}

// CancelArgs is the arguments of CANCEL and CANCEL_MSG.
type CancelArgs struct {
	Cookie           []byte
	Block, Exclusive bool
	Lock             Lock
}

// Append appends the arguments.
func (a *CancelArgs) Append(b []byte, vers uint32) []byte {
	b = xdr.AppendBool(xdr.AppendBool(xdr.AppendOpaque(b, a.Cookie), a.Block), a.Exclusive)
	return a.Lock.append(b, vers)
}

// Parse reads the arguments.
func (a *CancelArgs) Parse(d *xdr.Decoder, vers uint32) error {
	a.Cookie, a.Block, a.Exclusive = d.Opaque(MaxObject), d.Bool(), d.Bool()
	a.Lock.parse(d, vers)
	return d.ErrIn("nlm_cancargs")
}

// TestArgs is the arguments of TEST, GRANTED and their _MSG forms.
type TestArgs struct {
	Cookie    []byte
	Exclusive bool
	Lock      Lock
}

// Append appends the arguments.
func (a *TestArgs) Append(b []byte, vers uint32) []byte {
	return a.Lock.append(xdr.AppendBool(xdr.AppendOpaque(b, a.Cookie), a.Exclusive), vers)
}

// Parse reads the arguments.
func (a *TestArgs) Parse(d *xdr.Decoder, vers uint32) error {
	a.Cookie, a.Exclusive = d.Opaque(MaxObject), d.Bool()
	a.Lock.parse(d, vers)
	return d.ErrIn("nlm_testargs")
}

// UnlockArgs is the arguments of UNLOCK and UNLOCK_MSG.
type UnlockArgs struct {
	Cookie []byte
	Lock   Lock
}

// Append appends the arguments.
func (a *UnlockArgs) Append(b []byte, vers uint32) []byte {
	return a.Lock.append(xdr.AppendOpaque(b, a.Cookie), vers)
}

// Parse reads the arguments.
func (a *UnlockArgs) Parse(d *xdr.Decoder, vers uint32) error {
	a.Cookie = d.Opaque(MaxObject)
	a.Lock.parse(d, vers)
	return d.ErrIn("nlm_unlockargs")
}

// Res is the results of all procedures but TEST, SHARE and UNSHARE.
type Res struct {
	Cookie []byte
	Status Status
}

// Append appends the results.
func (r *Res) Append(b []byte, vers uint32) []byte {
	return xdr.AppendUint32(xdr.AppendOpaque(b, r.Cookie), uint32(r.Status.in(vers)))
}

// Parse reads the results.
func (r *Res) Parse(d *xdr.Decoder, _ uint32) error {
	r.Cookie, r.Status = d.Opaque(MaxObject), Status(d.Uint32())
	return d.ErrIn("nlm_res")
}

// TestRes is the results of TEST. The fields after Status are those of the lock in the way, if it is Denied.
type TestRes struct {
	Cookie      []byte
	Status      Status
	Exclusive   bool
	ID          uint32
	Owner       []byte
	Offset, Len uint64
}

// Append appends the results.
func (r *TestRes) Append(b []byte, vers uint32) []byte {
	b = xdr.AppendUint32(xdr.AppendOpaque(b, r.Cookie), uint32(r.Status.in(vers)))
	if r.Status != Denied {
		return b
	}
	b = xdr.AppendOpaque(xdr.AppendUint32(xdr.AppendBool(b, r.Exclusive), r.ID), r.Owner)
	return appendRange(b, r.Offset, r.Len, vers)
}

// Parse reads the results.
func (r *TestRes) Parse(d *xdr.Decoder, vers uint32) error {
	*r = TestRes{Cookie: d.Opaque(MaxObject), Status: Status(d.Uint32())}
	if r.Status == Denied {
		r.Exclusive, r.ID, r.Owner = d.Bool(), d.Uint32(), d.Opaque(MaxObject)
		r.Offset = octets(d, vers)
		r.Len = octets(d, vers)
	}
	return d.ErrIn("nlm_testres")
}

// ShareArgs is the arguments of SHARE and UNSHARE: DOS's share reservations.
type ShareArgs struct {
	Cookie       []byte
	Caller       []byte
	File, Owner  []byte
	Mode, Access uint32
	Reclaim      bool
}

// Append appends the arguments.
func (a *ShareArgs) Append(b []byte, _ uint32) []byte {
	b = xdr.AppendOpaque(xdr.AppendOpaque(b, a.Cookie), a.Caller)
	b = xdr.AppendOpaque(xdr.AppendOpaque(b, a.File), a.Owner)
	return xdr.AppendBool(xdr.AppendUint32(xdr.AppendUint32(b, a.Mode), a.Access), a.Reclaim)
}

// Parse reads the arguments.
func (a *ShareArgs) Parse(d *xdr.Decoder, _ uint32) error {
	a.Cookie, a.Caller = d.Opaque(MaxObject), d.Opaque(MaxNLMName)
	a.File, a.Owner = d.Opaque(MaxObject), d.Opaque(MaxObject)
	a.Mode, a.Access, a.Reclaim = d.Uint32(), d.Uint32(), d.Bool()
	return d.ErrIn("nlm_shareargs")
}

// ShareRes is the results of SHARE and UNSHARE.
type ShareRes struct {
	Cookie   []byte
	Status   Status
	Sequence uint32
}

// Append appends the results.
func (r *ShareRes) Append(b []byte, vers uint32) []byte {
	b = xdr.AppendUint32(xdr.AppendOpaque(b, r.Cookie), uint32(r.Status.in(vers)))
	return xdr.AppendUint32(b, r.Sequence)
}

// Parse reads the results.
func (r *ShareRes) Parse(d *xdr.Decoder, _ uint32) error {
	r.Cookie, r.Status, r.Sequence = d.Opaque(MaxObject), Status(d.Uint32()), d.Uint32()
	return d.ErrIn("nlm_shareres")
}

// FreeAllArgs is the arguments of FREE_ALL: a client that keeps no state has started again.
type FreeAllArgs struct {
	Name  []byte
	State uint32
}

// Append appends the arguments.
func (a *FreeAllArgs) Append(b []byte, _ uint32) []byte {
	return xdr.AppendUint32(xdr.AppendOpaque(b, a.Name), a.State)
}

// Parse reads the arguments.
func (a *FreeAllArgs) Parse(d *xdr.Decoder, _ uint32) error {
	a.Name, a.State = d.Opaque(MaxNLMName), d.Uint32()
	return d.ErrIn("nlm_notify")
}
