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
//	20, 21  SHARE, UNSHARE           a cookie ... Res, and a number
//	22      NM_LOCK                  LockArgs     Res
//	23      FREE_ALL                 Notify       void
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

// Message is arguments or results: code lists its fields, as a version has them.
type Message interface {
	code(c *xdr.Coder, vers uint32)
}

// versioned is a message as a version has it.
type versioned struct {
	Message
	vers uint32
}

func (v versioned) Code(c *xdr.Coder) { v.code(c, v.vers) }

// Append appends a message as a version has it. What does not fit there becomes the nearest that does.
func Append(b []byte, m Message, vers uint32) []byte { return xdr.Encode(b, versioned{m, vers}) }

// Parse reads a message as a version has it. The error is a *xdr.DecodeError.
func Parse(d *xdr.Decoder, m Message, vers uint32) error {
	return xdr.Decode(d, versioned{m, vers}).ErrIn("NLM message")
}

func (s *Status) code(c *xdr.Coder, vers uint32) {
	if fits := s.in(vers); !c.Reads() { // m stays as it is
		s = &fits
	}
	xdr.Word(c, s)
}

// codeRange is an offset and a length.
func codeRange(c *xdr.Coder, off, n *uint64, vers uint32) {
	if vers >= Version4 {
		c.Uint64(off, n)
		return
	}
	o, l := uint32(min(*off, math.MaxUint32)), uint32(*n)
	if *n > math.MaxUint32 {
		l = 0
	}
	if c.Uint32(&o, &l); c.Reads() {
		*off, *n = uint64(o), uint64(l)
	}
}

// Lock is an nlm_lock.
type Lock struct {
	Caller      []byte // the client's name
	File        []byte // its handle
	Owner       []byte // who asks, at the client
	ID          uint32 // svid: the process
	Offset, Len uint64 // Len 0: to the end of the file
}

func (l *Lock) code(c *xdr.Coder, vers uint32) {
	c.Opaque(&l.Caller, MaxNLMName)
	c.Opaque(&l.File, MaxObject)
	c.Opaque(&l.Owner, MaxObject)
	c.Uint32(&l.ID)
	codeRange(c, &l.Offset, &l.Len, vers)
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

func (a *LockArgs) code(c *xdr.Coder, vers uint32) {
	c.Opaque(&a.Cookie, MaxObject)
	c.Bool(&a.Block)
	c.Bool(&a.Exclusive)
	a.Lock.code(c, vers)
	c.Bool(&a.Reclaim)
	c.Uint32(&a.State)
}

// CancelArgs is the arguments of CANCEL and CANCEL_MSG.
type CancelArgs struct {
	Cookie           []byte
	Block, Exclusive bool
	Lock             Lock
}

func (a *CancelArgs) code(c *xdr.Coder, vers uint32) {
	c.Opaque(&a.Cookie, MaxObject)
	c.Bool(&a.Block)
	c.Bool(&a.Exclusive)
	a.Lock.code(c, vers)
}

// TestArgs is the arguments of TEST, GRANTED and their _MSG forms.
type TestArgs struct {
	Cookie    []byte
	Exclusive bool
	Lock      Lock
}

func (a *TestArgs) code(c *xdr.Coder, vers uint32) {
	c.Opaque(&a.Cookie, MaxObject)
	c.Bool(&a.Exclusive)
	a.Lock.code(c, vers)
}

// UnlockArgs is the arguments of UNLOCK and UNLOCK_MSG.
type UnlockArgs struct {
	Cookie []byte
	Lock   Lock
}

func (a *UnlockArgs) code(c *xdr.Coder, vers uint32) {
	c.Opaque(&a.Cookie, MaxObject)
	a.Lock.code(c, vers)
}

// Res is the results of all procedures but TEST, SHARE and UNSHARE.
type Res struct {
	Cookie []byte
	Status Status
}

func (r *Res) code(c *xdr.Coder, vers uint32) {
	c.Opaque(&r.Cookie, MaxObject)
	r.Status.code(c, vers)
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

func (r *TestRes) code(c *xdr.Coder, vers uint32) {
	c.Opaque(&r.Cookie, MaxObject)
	if r.Status.code(c, vers); r.Status == Denied {
		c.Bool(&r.Exclusive)
		c.Uint32(&r.ID)
		c.Opaque(&r.Owner, MaxObject)
		codeRange(c, &r.Offset, &r.Len, vers)
	}
}

// This file has the Network Status Monitor protocol, version 1 (The Open Group, Protocols for
// Interworking: XNFS, Version 3W, chapter 11): machines that have started again say so to those who hold locks for them,
// or whose locks they have held.
//
//	proc  name        arguments   results
//	1     STAT        a name      StatRes
//	2     MON         Mon         StatRes
//	3     UNMON       MonID       the state
//	4     UNMON_ALL   MyID        the state
//	5     SIMU_CRASH  void        void
//	6     NOTIFY      Notify      void
//
// Procedures 2 to 5 are for programs of the same machine.

// The protocol.
const (
	NSMProgram = 100024
	NSMVersion = 1

	NSMProcNull   = 0
	ProcStat      = 1
	ProcMon       = 2
	ProcUnmon     = 3
	ProcUnmonAll  = 4
	ProcSimuCrash = 5
	ProcNotify    = 6
	NSMProcCount  = 7

	MaxNSMName = 1024 // SM_MAXSTRLEN, octets
)

// Outcomes of STAT and MON.
const (
	Success = 0 // the machine is monitored
	Fail    = 1
)

// StatRes is the results of STAT and MON.
type StatRes struct {
	Outcome uint32
	State   uint32 // of this machine: odd while it is up, and greater each time
}

func (r *StatRes) Code(c *xdr.Coder) { c.Uint32(&r.Outcome, &r.State) }

// Notify is the arguments of NOTIFY, and of NLM's FREE_ALL, for clients that keep no state.
type Notify struct {
	Name  []byte // who has started again; a view of the input
	State uint32
}

func (a *Notify) Code(c *xdr.Coder) {
	c.Opaque(&a.Name, MaxNSMName)
	c.Uint32(&a.State)
}

// Parse reads the arguments.
