package pushfile

import (
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// The program, which is called on the connection that carries NFS. Its number is in the range that
// RFC 5531 Section 8.3 leaves to users.
const (
	Program = 0x2073746a
	Version = 1

	ProcNull   = 0
	ProcOpen   = 1
	ProcReturn = 2
	ProcStatus = 3
	ProcCount  = 4
)

// CallbackProgram is the program that the server calls in the backward direction (RFC 8167).
const (
	CallbackProgram = 0x2073746b
	CallbackVersion = 1

	ProcRecall = 1
)

// MaxText is the longest State.Text in octets.
const MaxText = 255

// Session names a session of a log, and proves that the caller has opened it: it comes from the answer
// to the OPEN of the log (push.Session.ID).
type Session [16]byte

func takeSession(d *xdr.Decoder) (s Session) {
	copy(s[:], d.FixedOpaque(len(s)))
	return s
}

// OpenArgs are pushfile_open_args.
type OpenArgs struct {
	Session Session
	File    nfs3.FileHandle
	Octets  uint64 // room that the client asks for
}

// Append appends the arguments.
func (a *OpenArgs) Append(b []byte) []byte {
	b = xdr.AppendFixedOpaque(b, a.Session[:])
	b = xdr.AppendOpaque(b, a.File)
	return xdr.AppendUint64(b, a.Octets)
}

// Parse reads the arguments.
func (a *OpenArgs) Parse(d *xdr.Decoder) {
	a.Session, a.File, a.Octets = takeSession(d), d.Opaque(nfs3.MaxHandle), d.Uint64()
}

// OpenRes is pushfile_open_res. The fields after Status are valid if that is StatusOK.
type OpenRes struct {
	Status   Status
	Lease    uint64
	Reserved uint64 // octets of room that the server has reserved
	Max      uint32 // most octets of data in one record
}

// Append appends the results.
func (r *OpenRes) Append(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(r.Status))
	if r.Status != StatusOK {
		return b
	}
	b = xdr.AppendUint64(b, r.Lease)
	b = xdr.AppendUint64(b, r.Reserved)
	return xdr.AppendUint32(b, r.Max)
}

// Parse reads the results.
func (r *OpenRes) Parse(d *xdr.Decoder) {
	*r = OpenRes{Status: Status(d.Uint32())}
	if r.Status == StatusOK {
		r.Lease, r.Reserved, r.Max = d.Uint64(), d.Uint64(), d.Uint32()
	}
}

// LeaseArgs are pushfile_lease_args, the arguments of RETURN.
type LeaseArgs struct {
	Session Session
	Lease   uint64
}

// Append appends the arguments.
func (a *LeaseArgs) Append(b []byte) []byte {
	return xdr.AppendUint64(xdr.AppendFixedOpaque(b, a.Session[:]), a.Lease)
}

// Parse reads the arguments.
func (a *LeaseArgs) Parse(d *xdr.Decoder) { a.Session, a.Lease = takeSession(d), d.Uint64() }

// StatusArgs are the arguments of STATUS.
type StatusArgs struct{ Session Session }

// Append appends the arguments.
func (a *StatusArgs) Append(b []byte) []byte { return xdr.AppendFixedOpaque(b, a.Session[:]) }

// Parse reads the arguments.
func (a *StatusArgs) Parse(d *xdr.Decoder) { a.Session = takeSession(d) }

// State is pushfile_state: how far a log has been applied.
type State struct {
	Applied uint64      // the effects of records up to this number are durable
	Error   nfs3.Status // of the record that cannot be applied; nfs3.OK: none
	Record  uint64      // the number of that record
	Lease   uint64      // the lease that it names
	Text    string      // for people, at most MaxText octets
}

// StatusRes is pushfile_status_res. State is valid if Status is StatusOK.
type StatusRes struct {
	Status Status
	State  State
}

// Append appends the results. It truncates a text that is too long.
func (r *StatusRes) Append(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(r.Status))
	if r.Status != StatusOK {
		return b
	}
	s := &r.State
	b = xdr.AppendUint64(b, s.Applied)
	b = xdr.AppendUint32(b, uint32(s.Error))
	b = xdr.AppendUint64(b, s.Record)
	b = xdr.AppendUint64(b, s.Lease)
	return xdr.AppendString(b, s.Text[:min(len(s.Text), MaxText)])
}

// Parse reads the results.
func (r *StatusRes) Parse(d *xdr.Decoder) {
	*r = StatusRes{Status: Status(d.Uint32())}
	if r.Status == StatusOK {
		r.State = State{
			Applied: d.Uint64(), Error: nfs3.Status(d.Uint32()), Record: d.Uint64(), Lease: d.Uint64(),
			Text: d.String(MaxText),
		}
	}
}

// RecallArgs are pushfile_recall_args. The result is a Status.
type RecallArgs struct {
	Session      Session
	Lease        uint64
	Milliseconds uint32 // after which the log is fenced
}

// Append appends the arguments.
func (a *RecallArgs) Append(b []byte) []byte {
	b = xdr.AppendFixedOpaque(b, a.Session[:])
	return xdr.AppendUint32(xdr.AppendUint64(b, a.Lease), a.Milliseconds)
}

// Parse reads the arguments.
func (a *RecallArgs) Parse(d *xdr.Decoder) {
	a.Session, a.Lease, a.Milliseconds = takeSession(d), d.Uint64(), d.Uint32()
}
