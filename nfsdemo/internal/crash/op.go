package crash

import (
	"fmt"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Kind is the kind of an operation.
type Kind string

// The operations. Those above Look must not run twice.
const (
	Mkdir     Kind = "mkdir"
	Create    Kind = "create"    // UNCHECKED
	Guarded   Kind = "guarded"   // CREATE of a name that must be free
	Exclusive Kind = "exclusive" // CREATE with a verifier
	Symlink   Kind = "symlink"
	Mkfifo    Kind = "mkfifo" // MKNOD
	Remove    Kind = "remove"
	Rmdir     Kind = "rmdir"
	Rename    Kind = "rename"
	Link      Kind = "link"
	Chmod     Kind = "chmod"    // SETATTR of the mode
	Truncate  Kind = "truncate" // SETATTR of the size
	Look      Kind = "look"     // LOOKUP
	GetAttr   Kind = "getattr"
	Read      Kind = "read"
	Write     Kind = "write"
	Commit    Kind = "commit"
)

// Op is one operation of a worker. It holds everything that its call contains, so that a killed
// worker can make the same call again.
type Op struct {
	N    uint32 // its number in the list, from 1
	XID  uint32 `json:",omitempty"` // 0: unknown
	Kind Kind
	Path string // below the export: the object that it makes or works on
	To   string `json:",omitempty"` // the new name of Rename and Link

	Dir  []byte `json:",omitempty"` // handle of the directory of Path
	Into []byte `json:",omitempty"` // handle of the directory of To
	File []byte `json:",omitempty"` // handle of the file at Path

	Mode   uint32         `json:",omitempty"` // permission bits
	Verf   uint64         `json:",omitempty"` // of Exclusive
	Target string         `json:",omitempty"` // of Symlink
	Guard  bool           `json:",omitempty"` // Chmod is guarded by Ctime
	Ctime  nfs3.Time      `json:",omitzero"`
	First  int            `json:",omitempty"` // first piece of Read and Write
	Pieces int            `json:",omitempty"` // how many; the size for Truncate
	Stable nfs3.StableHow `json:",omitempty"` // of Write
	Life   string         // of the server, when the operation was about to be sent
}

// String describes the operation for messages.
func (o *Op) String() string {
	s := fmt.Sprintf("operation %d, %s %s", o.N, o.Kind, o.Path)
	if o.To != "" {
		s += " to " + o.To
	}
	return s
}

// Once reports whether the operation must not run twice.
func (o *Op) Once() bool { return o.Kind.once() }

func (k Kind) once() bool {
	switch k {
	case Look, GetAttr, Read, Commit:
		return false
	default:
		return true
	}
}

// cut reports whether the server was killed while the call was on its way: it may have run, and, since a server
// forgets its replies with its life, have run again when it was sent again.
func (o *Op) cut(res *Result) bool { return res.Life != o.Life }

// looks reports whether the operation changes nothing, so that a new call can be made for it.
func (o *Op) looks() bool {
	switch o.Kind {
	case Look, GetAttr, Read:
		return true
	default:
		return false
	}
}

// Result is the answer to an operation.
type Result struct {
	Status nfs3.Status
	Raw    []byte     `json:",omitempty"` // the encoded results, of operations that must not run twice
	Handle []byte     `json:",omitempty"` // of a new object, or one that was looked up
	Attr   *nfs3.Attr `json:",omitempty"` // afterwards
	Stable bool       `json:",omitempty"` // the written data are durable
	Verf   uint64     `json:",omitempty"` // of Write and Commit
	Stamps []uint64   `json:",omitempty"` // of the pieces read
	Kept   uint64     `json:",omitempty"` // the record that holds it, with a kept caller
	Life   string     // of the server that answered; "": unknown
}
