package page

import (
	"encoding/json"
	"time"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// row is one arrow of the ladder. Times are nanoseconds.
type row struct {
	Kind     string     `json:"kind"` // startup, send, write, read, response, request, answer, terminate, undecoded, close
	Dir      decode.Dir `json:"dir"`
	First    int        `json:"first"` // frame in which its first octet was
	Frame    int        `json:"frame"` // frame that completed it
	At       int64      `json:"at"`    // when, since the start of the capture
	Lasted   int64      `json:"lasted,omitempty"`
	Op       string     `json:"op"`
	Text     string     `json:"text,omitempty"`
	Segments int        `json:"segments"`
	Len      int        `json:"len"` // octets of payload

	XID    string  `json:"xid,omitempty"`    // it serves
	Peer   int     `json:"peer,omitempty"`   // row of its call or reply, counted from 1
	Credit *uint32 `json:"credit,omitempty"` // asked or granted
	Open   *int    `json:"open,omitempty"`   // calls that wait for a reply, after it

	Err    string          `json:"err,omitempty"`
	Marks  []int           `json:"marks,omitempty"` // violations, as indices of the connection's
	Fields json.RawMessage `json:"fields,omitempty"`
	Octets []byte          `json:"octets,omitempty"`
	Of     int             `json:"of,omitempty"`    // how many octets there were
	Parts  []part          `json:"parts,omitempty"` // of Octets

	from, to uint64 // the range in the stream
	began    int64
	index    int  // among the rows of its connection
	peer     *row // Peer
}

// kinds of rows that are not an opcode's.
const (
	kindStartup   = "startup"
	kindUndecoded = "undecoded"
	kindClose     = "close"
)

// kindOf says how an event is drawn.
func kindOf(ev *decode.Event) string {
	switch {
	case ev.Kind == decode.KindStartup:
		return kindStartup
	case ev.Kind == decode.KindClose:
		return kindClose
	case ev.RDMAP == nil:
		return kindUndecoded
	}
	switch ev.RDMAP.Op {
	case verbs.OpWrite:
		return "write"
	case verbs.OpReadRequest:
		return "read"
	case verbs.OpReadResponse:
		return "response"
	case verbs.OpTerminate:
		return "terminate"
	case verbs.OpSend, verbs.OpSendInvalidate, verbs.OpSendSE, verbs.OpSendSEInvalidate, verbs.OpImmediate, verbs.OpImmediateSE:
		return "send"
	case verbs.OpAtomicRequest, verbs.OpFlushRequest, verbs.OpVerifyRequest, verbs.OpAtomicWriteRequest:
		return "request"
	default: // their responses, and undefined opcodes
		return "answer"
	}
}

func newRow(ev *decode.Event) *row { return &row{Kind: kindOf(ev), Dir: ev.Dir, Op: opName(ev)} }

// add counts one more segment, or the only frame, into the row.
func (r *row) add(ev *decode.Event, start time.Time) {
	at := int64(ev.Time.Sub(start))
	if r.Segments == 0 {
		r.First, r.from, r.began = ev.First, ev.Offset, at
	}
	r.Segments++
	r.Frame, r.At, r.Lasted = ev.Frame, at, at-r.began
	r.to = ev.Offset + uint64(ev.Len)
	switch {
	case ev.DDP != nil:
		r.Len += len(ev.DDP.Payload)
	case ev.FPDU != nil:
		r.Len += len(ev.FPDU.ULPDU)
	default:
		r.Len += ev.Len
	}
	if r.Err == "" && ev.Err != nil {
		r.Err = clip(ev.Err.Error())
	}
}

// holds reports whether the row is the place of a violation. An empty row, as for the end of a stream, holds
// the violations at its offset.
func (r *row) holds(v *judge.Violation) bool {
	return r.Dir == v.Dir && r.First <= v.Frame && v.Frame <= r.Frame &&
		r.from <= v.Offset && (v.Offset < r.to || r.from == r.to && v.Offset == r.to)
}

// maxText bounds a line of text taken from a capture, in octets.
const maxText = 1024

func clip(s string) string {
	if len(s) > maxText {
		return s[:maxText] + "..."
	}
	return s
}
