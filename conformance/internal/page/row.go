package page

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
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

// part names a range of a message's octets: up to, but not including, index End.
type part struct {
	End  int    `json:"end"`
	Name string `json:"name"` // mpa, ddp, header, payload
}

// maxFields bounds the decoded fields of one message, in octets of JSON.
const maxFields = 16 << 10

// fields keeps the decoded fields of a finished message.
func (b *Builder) fields(r *row, ev *decode.Event) {
	j, err := json.Marshal(ev)
	if err != nil || len(j) > maxFields || len(j) > b.detail {
		j, _ = json.Marshal(map[string]string{"left out": clip(ev.String())})
	}
	if len(j) <= b.detail {
		b.detail -= len(j)
		r.Fields = j
	}
}

// octets keeps the first octets of a message's first frame.
func (b *Builder) octets(r *row, ev *decode.Event) {
	n := min(len(ev.Raw), b.opt.MaxOctets)
	cost := n * 4 / 3 // in Base64
	if r.Of = len(ev.Raw); cost > b.detail {
		return
	}
	b.detail -= cost
	r.Octets = append([]byte(nil), ev.Raw[:n]...)
	for _, p := range parts(ev) {
		p.End = min(p.End, n)
		if k := len(r.Parts); p.End > 0 && (k == 0 || r.Parts[k-1].End < p.End) {
			r.Parts = append(r.Parts, p)
		}
	}
}

// parts divides a frame into its parts. Frames with markers are one part: the markers may be anywhere.
func parts(ev *decode.Event) []part {
	if ev.FPDU == nil || ev.FPDU.Markers > 0 {
		return []part{{len(ev.Raw), "payload"}}
	}
	p := []part{{mpa.HeaderLen, "mpa"}}
	if ev.DDP != nil {
		p = append(p, part{mpa.HeaderLen + ev.DDP.HeaderLen(), "ddp"})
		if ev.Header != nil && ev.Message.Segments == 1 {
			p = append(p, part{p[1].End + ev.Header.Size(), "header"})
		}
	}
	return append(p, part{mpa.HeaderLen + len(ev.FPDU.ULPDU), "payload"}, part{len(ev.Raw), "mpa"})
}

// opName names what an arrow is.
func opName(ev *decode.Event) string {
	switch {
	case ev.Manager != "":
		return "CM " + ev.Manager
	case ev.RC != nil: // that of the message of which it is a part
		name := strings.Replace(ev.RC.String(), " Only", "", 1)
		for _, part := range []string{" First", " Middle", " Last"} {
			name, _, _ = strings.Cut(name, part)
		}
		return name
	case ev.Kind == decode.KindStartup && ev.Startup.IsReply:
		return "MPA Reply"
	case ev.Kind == decode.KindStartup:
		return "MPA Request"
	case ev.Kind == decode.KindClose && ev.Reset:
		return "RST"
	case ev.Kind == decode.KindClose:
		return "FIN"
	case ev.Kind == decode.KindUndecoded:
		return "not decoded"
	case ev.RDMAP == nil:
		return "FPDU"
	}
	return ev.RDMAP.Op.String()
}

// text returns in a few words what the message is for.
func text(ev *decode.Event, r *row) string {
	m := ev.Message
	switch {
	case ev.Startup != nil && ev.Manager != "":
		return depthsText(ev.Startup)
	case ev.Startup != nil:
		return fmt.Sprintf("revision %d, %s", ev.Startup.Rev, depthsText(ev.Startup))
	case ev.Kind == decode.KindClose:
		return ""
	case ev.Header != nil:
		return headerText(ev)
	case ev.RPC != nil: // the last octets of a call's chunks
		return rpcText(ev.RPC)
	case m != nil && m.Read != nil:
		return fmt.Sprintf("%d octets of %v", m.Read.Size, m.Read.SourceSTag)
	case m != nil && m.Terminate != nil:
		return m.Terminate.String()
	case ev.DDP != nil && ev.DDP.Tagged:
		return fmt.Sprintf("%d octets at %v", r.Len, ev.DDP.STag)
	}
	return fmt.Sprintf("%d octets", r.Len)
}

func depthsText(s *decode.Startup) string {
	var parts []string
	if s.Enhanced {
		parts = append(parts, fmt.Sprintf("IRD %d, ORD %d", s.Word.IRD, s.Word.ORD))
	}
	for _, f := range []struct {
		on   bool
		name string
	}{{s.Rejected, "rejected"}, {s.Markers, "markers"}, {s.CRC, "CRC"}, {s.CM != nil, "RPC-over-RDMA"}} {
		if f.on {
			parts = append(parts, f.name)
		}
	}
	return strings.Join(parts, ", ")
}

func headerText(ev *decode.Event) string {
	h := ev.Header
	var parts []string
	if h.Type != rpcrdma.MsgTypeMsg {
		parts = append(parts, h.Type.String())
	}
	if h.Type == rpcrdma.MsgTypeError {
		parts = append(parts, h.Err.String())
	}
	if ev.RPC != nil {
		parts = append(parts, rpcText(ev.RPC))
	}
	for _, l := range []struct {
		n    int
		name string
	}{{len(h.Read), "read"}, {len(h.Write), "write"}, {len(h.Reply), "reply chunk"}} {
		if l.n > 0 {
			parts = append(parts, "+ "+l.name)
		}
	}
	return strings.Join(parts, " ")
}

// maxOps bounds the operations of a COMPOUND that are named on its arrow; the fields show all of them.
const maxOps = 12

func rpcText(r *decode.RPC) string {
	var parts []string
	switch {
	case r.Pulled:
		parts = append(parts, "completes call")
	case r.IsReply:
		parts = append(parts, "reply")
	default:
		parts = append(parts, "call")
	}
	if r.Name != "" {
		parts = append(parts, r.Name)
	}
	if r.Compound != nil {
		for _, op := range r.Compound.Ops[:min(len(r.Compound.Ops), maxOps)] {
			parts = append(parts, op.Name)
		}
	}
	if r.Reply != nil && r.Reply.Err() != nil {
		parts = append(parts, r.Reply.Err().Error())
	}
	if r.Status != "" {
		parts = append(parts, r.Status)
	}
	return strings.Join(parts, " ")
}
