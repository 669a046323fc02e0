package lockd

import "github.com/stag-rdma/stag/xdr"

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

// Notify is the arguments of NOTIFY.
type Notify struct {
	Name  []byte // who has started again; a view of the input
	State uint32
}

func (a *Notify) Code(c *xdr.Coder) {
	c.Opaque(&a.Name, MaxNSMName)
	c.Uint32(&a.State)
}

// Parse reads the arguments.
