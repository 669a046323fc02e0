package push

import (
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/internal/rendezvous"
	"github.com/stag-rdma/stag/xdr"
)

// The RPC program (docs/push.x). Its number is in the range that RFC 5531 Section 8.3 leaves to
// users.
const (
	Program = 0x20737467
	Version = 1

	procNull    = 0
	procOpen    = 1
	procClose   = 2
	procAppend  = 3
	procStatus  = 4
	procRead    = 5
	procRelease = 6
	// ProcCount is the number of procedures, which are numbered from 0.
	ProcCount = 7
)

// Limits of the program's strings and arrays.
const (
	maxName    = 64
	maxRecords = 1024
	keyLen     = 16
	// maxPayload limits the payload of a record of a commit log, in octets.
	maxPayload = 1 << 30

	// maxReadOctets limits the entries of one READ, in octets.
	maxReadOctets = 2 << 20
)

// Secret proves ownership of a log: 128 random bits that its client chooses.
type Secret [keyLen]byte

// NewSecret returns a secret for a new log. Keep it durably before you use it.
func NewSecret() (s Secret) {
	_, _ = rand.Read(s[:]) // never fails, by its documentation
	return s
}

// key is a random name for something at the server: a session, a token, an instance.
type key [keyLen]byte

func takeKey(d *xdr.Decoder) (k key) {
	copy(k[:], d.FixedOpaque(keyLen))
	return k
}

// openArgs are push_open_args.
type openArgs struct {
	Name     string
	Secret   Secret
	Instance key
	Resume   bool
	Capacity uint64
	Native   bool
}

func (a *openArgs) Code(c *xdr.Coder) {
	c.String(&a.Name, maxName)
	c.Fixed(a.Secret[:])
	c.Fixed(a.Instance[:])
	c.Bool(&a.Resume)
	c.Uint64(&a.Capacity)
	c.Bool(&a.Native)
}

func (a *openArgs) append(b []byte) []byte { return xdr.Encode(b, a) }
func (a *openArgs) parse(d *xdr.Decoder)   { xdr.Decode(d, a) }

// opened is push_opened.
type opened struct {
	Session key
	Commit  *rendezvous.Place // nil: none
	Answer  commitlog.Answer
}

func level(persistent bool) commitlog.Level {
	if persistent {
		return commitlog.Persistent
	}
	return commitlog.Placed
}

// openRes is push_open_res.
type openRes struct {
	Status Status
	Opened opened // of StatusOK
}

func (r *openRes) Code(c *xdr.Coder) {
	if xdr.Word(c, &r.Status) == StatusOK {
		r.Opened.Code(c)
	}
}

func (o *opened) Code(c *xdr.Coder) {
	c.Fixed(o.Session[:])
	if native := o.Commit != nil; c.Bool(&native) {
		if o.Commit == nil {
			o.Commit = new(rendezvous.Place)
		}
		o.Commit.Code(c)
	}
	a := &o.Answer
	c.Fixed(a.ID[:])
	c.Uint64(&a.Capacity)
	xdr.Word(c, &a.Mode)
	xdr.Word(c, &a.Hash)
	l := uint32(level(a.Persistent))
	c.Uint32(&l, &a.Epoch)
	a.Persistent = commitlog.Level(l) == commitlog.Persistent
	c.Uint64(&a.Head, &a.Tail, &a.NextSeq)
	c.Uint32(&a.LastEpoch)
}

func (r *openRes) append(b []byte) []byte { return xdr.Encode(b, r) }
func (r *openRes) parse(d *xdr.Decoder)   { xdr.Decode(d, r) }

// appendArgs are push_append_args. Records alias the decoder's input.
type appendArgs struct {
	Session key
	Seq     uint64
	Records [][]byte
}

func (a *appendArgs) append(b []byte) []byte {
	b = xdr.AppendFixedOpaque(b, a.Session[:])
	b = xdr.AppendUint64(b, a.Seq)
	b = xdr.AppendUint32(b, uint32(len(a.Records)))
	for _, r := range a.Records {
		b = xdr.AppendOpaque(b, r)
	}
	return b
}

func (a *appendArgs) parse(d *xdr.Decoder) {
	a.Session, a.Seq = takeKey(d), d.Uint64()
	n := d.Count(maxRecords, 4)
	a.Records = make([][]byte, 0, n)
	for range n {
		a.Records = append(a.Records, d.Opaque(d.Len()))
	}
}

// stateRes is push_state_res.
type stateRes struct {
	Status     Status
	Head, Next uint64
	Level      commitlog.Level
}

func (r *stateRes) Code(c *xdr.Coder) {
	if xdr.Word(c, &r.Status) != StatusOK {
		return
	}
	c.Uint64(&r.Head, &r.Next)
	l := uint32(r.Level)
	c.Uint32(&l)
	r.Level = commitlog.Level(l)
}

func (r *stateRes) append(b []byte) []byte { return xdr.Encode(b, r) }
func (r *stateRes) parse(d *xdr.Decoder)   { xdr.Decode(d, r) }

// readArgs are push_read_args.
type readArgs struct {
	Name         string
	Secret       Secret
	From         uint64
	Octets       uint32
	Milliseconds uint32
}

func (a *readArgs) Code(c *xdr.Coder) {
	c.String(&a.Name, maxName)
	c.Fixed(a.Secret[:])
	c.Uint64(&a.From)
	c.Uint32(&a.Octets, &a.Milliseconds)
}

func (a *readArgs) append(b []byte) []byte { return xdr.Encode(b, a) }
func (a *readArgs) parse(d *xdr.Decoder)   { xdr.Decode(d, a) }

// readRes is push_read_res.
type readRes struct {
	Status  Status
	First   uint64 // of StatusReleased: the oldest record
	Records []*commitlog.Record
}

const (
	readResLen = 12 // of push_read_res, without its entries
	entryLen   = 20 // most octets of a push_entry besides those of its record
)

func (r *readRes) append(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(r.Status))
	if r.Status == StatusReleased {
		return xdr.AppendUint64(b, r.First)
	}
	if r.Status == StatusOK {
		b = xdr.AppendUint32(b, uint32(len(r.Records)))
	}
	for _, rec := range r.Records {
		b = xdr.AppendUint32(xdr.AppendUint64(b, rec.Seq), rec.Epoch)
		b = xdr.AppendOpaque(b, rec.Payload)
	}
	return b
}

func (r *readRes) parse(d *xdr.Decoder) {
	r.Status = Status(d.Uint32())
	if r.Status == StatusReleased {
		r.First = d.Uint64()
	}
	if r.Status != StatusOK {
		return
	}
	for range d.Count(maxRecords, 16) {
		rec := &commitlog.Record{Seq: d.Uint64(), Epoch: d.Uint32()}
		rec.Payload = slices.Clone(d.Opaque(d.Len()))
		r.Records = append(r.Records, rec)
	}
}

// releaseArgs are push_release_args.
type releaseArgs struct {
	Name   string
	Secret Secret
	Seq    uint64
}

func (a *releaseArgs) Code(c *xdr.Coder) {
	c.String(&a.Name, maxName)
	c.Fixed(a.Secret[:])
	c.Uint64(&a.Seq)
}

func (a *releaseArgs) append(b []byte) []byte { return xdr.Encode(b, a) }
func (a *releaseArgs) parse(d *xdr.Decoder)   { xdr.Decode(d, a) }

// Status is the result of a call (docs/push.x, push_status). As an error it means that the server
// has refused.
type Status uint32

// The statuses.
const (
	StatusOK       Status = 0
	StatusRefused  Status = 1 // because of the name, the secret or the rules; the server does not say which
	StatusBusy     Status = 2 // busy now; try again
	StatusFull     Status = 3 // no room in the log, or for another log
	StatusFenced   Status = 4 // another instance of the owner has opened the log since, or another program uses the session
	StatusStale    Status = 5 // the session is over
	StatusGap      Status = 6 // records before this one are missing
	StatusTooLarge Status = 7 // a record beyond the limit
	StatusLost     Status = 8 // the log is damaged, or its medium has failed
	StatusReleased Status = 9 // the record was released
)

var statusText = [...]string{
	StatusOK:       "ok",
	StatusRefused:  "refused (is it the secret with which this log was made?)",
	StatusBusy:     "busy (try again)",
	StatusFull:     "full (release records of this log; for another log: on the server, remove logs that nobody uses, or raise the limits)",
	StatusFenced:   "another instance of the owner has opened the log since, or uses the session",
	StatusStale:    "the session is over (open again)",
	StatusGap:      "the log does not reach this number (read the log, to see which records it has)",
	StatusTooLarge: "record too large (split it, or open a larger log)",
	StatusLost:     "the log is damaged, or its medium has failed (see the server's log)",
	StatusReleased: "the record was released",
}

// String describes the status.
func (s Status) String() string {
	if int(s) < len(statusText) {
		return statusText[s]
	}
	return fmt.Sprintf("status(%d)", uint32(s))
}

// Error implements error.
func (s Status) Error() string { return "push: " + s.String() }

// temporary reports whether the same call may succeed later.
func (s Status) temporary() bool { return s == StatusBusy || s == StatusStale }

// Error says which operation on which log failed. Err is a Status if the server refused, and
// otherwise an error of package transport, rdmap or commitlog.
type Error struct {
	Op  string // "open", "append", "read", "release", "load"
	Log string // its name
	Err error
}

// Error returns one line.
func (e *Error) Error() string {
	if s, ok := e.Err.(Status); ok { //nolint:errorlint // the outermost, for its text
		return fmt.Sprintf("push: %s %q: %v", e.Op, e.Log, s.String())
	}
	return fmt.Sprintf("push: %s %q: %v", e.Op, e.Log, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
