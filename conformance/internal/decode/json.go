package decode

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
)

// jsonEvent is the form of an event in JSON. Objects are named after Wireshark's protocols, and their fields
// after its fields; absent layers are left out. Numbers that need 64 bits, tags and handles are hexadecimal
// strings.
type jsonEvent struct {
	Frame  int      `json:"frame"`
	First  int      `json:"first_frame"`
	Time   string   `json:"time,omitempty"`
	Conn   int      `json:"connection"`
	Source string   `json:"src"`
	Dest   string   `json:"dst"`
	Kind   string   `json:"kind"`
	Offset uint64   `json:"offset"`
	Len    int      `json:"len"`
	Reset  bool     `json:"reset,omitempty"`
	Error  string   `json:"error,omitempty"`
	IB     *jsonIB  `json:"infiniband,omitempty"`
	MPA    *jsonMPA `json:"iwarp_mpa,omitempty"`
	DDP    *jsonDDP `json:"iwarp_ddp,omitempty"`
	RDMA   *jsonOp  `json:"iwarp_rdma,omitempty"`
	RPCoR  *jsonHdr `json:"rpcordma,omitempty"`
	RPC    *jsonRPC `json:"rpc,omitempty"`
	Commit string   `json:"commitlog,omitempty"` // as in the text form
}

type jsonMPA struct {
	Type        string `json:"type"` // request, reply, fpdu
	Rev         *uint8 `json:"rev,omitempty"`
	Flags       string `json:"flags,omitempty"`
	PDLength    *int   `json:"pdlength,omitempty"`
	PrivateData string `json:"privatedata,omitempty"`
	IRD         *int   `json:"ird,omitempty"`
	ORD         *int   `json:"ord,omitempty"`
	ULPDULength *int   `json:"ulpdulength,omitempty"`
	Pad         string `json:"pad,omitempty"`
	CRC         string `json:"crc,omitempty"`
	CRCCheck    string `json:"crc_check,omitempty"`
	Markers     int    `json:"markers,omitempty"`
}

// jsonIB is a packet of a reliable connection, or a message of a connection manager.
type jsonIB struct {
	Name        string  `json:"name"` // RC Send Only; ConnectRequest
	Opcode      string  `json:"opcode,omitempty"`
	PSN         *uint32 `json:"psn,omitempty"`
	DestQP      string  `json:"destqp,omitempty"`
	Syndrome    string  `json:"syndrome,omitempty"`
	Immediate   string  `json:"immdt,omitempty"`
	RKey        string  `json:"r_key,omitempty"`
	VA          string  `json:"va,omitempty"`
	DMALen      *uint32 `json:"dmalen,omitempty"`
	Inval       string  `json:"ieth,omitempty"`
	Extension   string  `json:"extension,omitempty"` // as in the text form
	Len         *int    `json:"payload_len,omitempty"`
	Message     *int    `json:"message_len,omitempty"`
	Segments    int     `json:"message_segments,omitempty"`
	PrivateData string  `json:"privatedata,omitempty"`
	IRD         *int    `json:"ird,omitempty"`
	ORD         *int    `json:"ord,omitempty"`
}

type jsonDDP struct {
	Tagged bool    `json:"tagged_flag"`
	Last   bool    `json:"last_flag"`
	STag   string  `json:"stag,omitempty"`
	TO     string  `json:"tagged_offset,omitempty"`
	QN     *uint32 `json:"qn,omitempty"`
	MSN    *uint32 `json:"msn,omitempty"`
	MO     *uint32 `json:"mo,omitempty"`
	Len    int     `json:"payload_len"`
}

type jsonOp struct {
	Opcode     string `json:"opcode"`
	Name       string `json:"name"`
	Inval      string `json:"inval_stag,omitempty"`
	SinkSTag   string `json:"sinkstag,omitempty"`
	SinkTO     string `json:"sinkto,omitempty"`
	ReadSize   *int64 `json:"rdmardsz,omitempty"`
	SourceSTag string `json:"srcstag,omitempty"`
	SourceTO   string `json:"srcto,omitempty"`
	Terminate  string `json:"terminate,omitempty"`
	Extension  string `json:"extension,omitempty"` // as in the text form
	Message    *int   `json:"message_len,omitempty"`
	Segments   int    `json:"message_segments,omitempty"`
}

type jsonSegment struct {
	Position *uint32 `json:"position,omitempty"`
	Handle   string  `json:"rdma_handle"`
	Length   uint32  `json:"rdma_length"`
	Offset   string  `json:"rdma_offset"`
}

type jsonHdr struct {
	XID     string          `json:"xid"`
	Version uint32          `json:"version"`
	Credits uint32          `json:"flow_control"`
	Type    string          `json:"msg_type"`
	Error   string          `json:"errcode,omitempty"`
	Low     uint32          `json:"vers_low,omitempty"`
	High    uint32          `json:"vers_high,omitempty"`
	Reads   []jsonSegment   `json:"reads,omitempty"`
	Writes  [][]jsonSegment `json:"writes,omitempty"`
	Reply   []jsonSegment   `json:"reply,omitempty"`
}

type jsonRPC struct {
	XID       string `json:"xid"`
	Type      string `json:"msgtyp"` // call, reply, pulled
	Name      string `json:"procedure,omitempty"`
	Program   uint32 `json:"program,omitempty"`
	Version   uint32 `json:"programversion,omitempty"`
	Procedure uint32 `json:"procedure_number"`
	Accept    string `json:"state_accept,omitempty"`
	Status    string `json:"status,omitempty"`
	Keys      string `json:"keys,omitempty"` // handles, names, offsets, counts, as in the text form
	CallFrame int    `json:"call_frame,omitempty"`
	GSS       string `json:"gss,omitempty"`
	Backward  bool   `json:"backward,omitempty"`
	Whole     bool   `json:"whole"`
	Len       int    `json:"body_len"`

	CCP        *jsonCCP  `json:"ccp,omitempty"`
	Operations []jsonNFS `json:"operations,omitempty"` // of a COMPOUND
}

type jsonCCP struct {
	MaxCallSend  uint32 `json:"maxcall_sendsize"`
	MaxReplySend uint32 `json:"maxreply_sendsize,omitempty"`
	Align        uint32 `json:"align,omitempty"`
	MaxRDMARead  uint32 `json:"maxrdmaread"`
}

type jsonNFS struct {
	Opcode uint32 `json:"opcode"`
	Name   string `json:"name"`
	Status string `json:"status,omitempty"` // of a result
	Moved  int    `json:"moved_len,omitempty"`
}

var _ json.Marshaler = (*Event)(nil)

// MarshalJSON returns the event as one JSON object, layers as nested objects with Wireshark's names.
func (e *Event) MarshalJSON() ([]byte, error) {
	j := jsonEvent{
		Frame: e.Frame, First: e.First, Conn: e.Conn.ID, Kind: e.Kind.String(),
		Source: e.Conn.end(e.Dir).String(), Dest: e.Conn.end(1 - e.Dir).String(),
		Offset: e.Offset, Len: e.Len, Reset: e.Reset,
	}
	if e.RC != nil || e.Manager != "" {
		j.IB = e.jsonIB()
	} else {
		j.MPA, j.DDP, j.RDMA = e.jsonMPA(), e.jsonDDP(), e.jsonOp()
	}
	if !e.Time.IsZero() {
		j.Time = e.Time.UTC().Format("2006-01-02T15:04:05.000000000Z")
	}
	if e.Err != nil {
		j.Error = e.Err.Error()
	}
	if e.Header != nil {
		j.RPCoR = jsonHeader(e.Header)
	}
	if e.RPC != nil {
		j.RPC = e.RPC.json()
	}
	if e.Commit != nil {
		var b strings.Builder
		e.Commit.text(&b)
		j.Commit = strings.TrimPrefix(b.String(), " | log ")
	}
	return json.Marshal(j)
}

func (e *Event) jsonMPA() *jsonMPA {
	switch {
	case e.Startup != nil:
		s := e.Startup
		j := &jsonMPA{
			Type: "request", Rev: &s.Rev, Flags: fmt.Sprintf("%#02x", s.Flags),
			PDLength: &s.PDLength, PrivateData: hex.EncodeToString(s.PrivateData),
		}
		if s.IsReply {
			j.Type = "reply"
		}
		if s.Enhanced {
			j.IRD, j.ORD = new(int(s.Word.IRD)), new(int(s.Word.ORD))
		}
		return j
	case e.FPDU != nil:
		return &jsonMPA{
			Type: "fpdu", ULPDULength: new(len(e.FPDU.ULPDU)), Pad: hex.EncodeToString(e.FPDU.Pad),
			CRC: fmt.Sprintf("%#08x", e.FPDU.CRC), CRCCheck: e.FPDU.CRCState.String(), Markers: e.FPDU.Markers,
		}
	}
	return nil
}

func (e *Event) jsonIB() *jsonIB {
	j := &jsonIB{Name: e.Manager}
	if s := e.Startup; s != nil {
		j.PrivateData = hex.EncodeToString(s.PrivateData)
		if s.Enhanced {
			j.IRD, j.ORD = new(int(s.Word.IRD)), new(int(s.Word.ORD))
		}
	}
	if e.RC == nil {
		return j
	}
	j.Name, j.Opcode, j.PSN, j.DestQP = e.RC.String(), fmt.Sprintf("%#02x", e.RC.Opcode), &e.RC.PSN, fmt.Sprintf("%#06x", e.RC.QP)
	if e.RC.Syndrome != 0 {
		j.Syndrome = nakName(e.RC.Syndrome)
	}
	if e.RC.Immediate != nil {
		j.Immediate = fmt.Sprintf("%#08x", *e.RC.Immediate)
	}
	if e.DDP == nil {
		return j
	}
	j.Len = new(len(e.DDP.Payload))
	switch op := e.jsonOp(); {
	case e.RDMAP.Op == verbs.OpWrite:
		j.RKey, j.VA = e.DDP.STag.String(), fmt.Sprintf("%#x", e.DDP.TO)
	case op.SourceSTag != "":
		j.RKey, j.VA, j.DMALen = op.SourceSTag, op.SourceTO, &e.Message.Read.Size
	default:
		j.Inval, j.Extension, j.Message, j.Segments = op.Inval, op.Extension, op.Message, op.Segments
	}
	return j
}

func (e *Event) jsonDDP() *jsonDDP {
	if e.DDP == nil {
		return nil
	}
	j := &jsonDDP{Tagged: e.DDP.Tagged, Last: e.DDP.Last, Len: len(e.DDP.Payload)}
	if e.DDP.Tagged {
		j.STag, j.TO = e.DDP.STag.String(), fmt.Sprintf("%#x", e.DDP.TO)
	} else {
		j.QN, j.MSN, j.MO = &e.DDP.QN, &e.DDP.MSN, &e.DDP.MO
	}
	return j
}

func (e *Event) jsonOp() *jsonOp {
	if e.RDMAP == nil {
		return nil
	}
	j := &jsonOp{Opcode: fmt.Sprintf("%#02x", uint8(e.RDMAP.Op)), Name: e.RDMAP.Op.String()}
	if e.RDMAP.Op.Invalidates() {
		j.Inval = e.RDMAP.Invalidate.String()
	}
	m := e.Message
	if m == nil {
		return j
	}
	j.Message, j.Segments = new(len(m.Payload)), m.Segments
	if r := m.Read; r != nil {
		j.SinkSTag, j.SinkTO = r.SinkSTag.String(), fmt.Sprintf("%#x", r.SinkTO)
		j.SourceSTag, j.SourceTO = r.SourceSTag.String(), fmt.Sprintf("%#x", r.SourceTO)
		j.ReadSize = new(int64(r.Size))
	}
	if m.Terminate != nil {
		j.Terminate = m.Terminate.String()
	}
	if m.Extension != nil {
		var b strings.Builder
		m.Extension.text(&b, m.Op)
		j.Extension = strings.TrimPrefix(b.String(), " | ")
	}
	return j
}

func jsonHeader(h *rpcrdma.Header) *jsonHdr {
	j := &jsonHdr{
		XID: fmt.Sprintf("%#08x", h.XID), Version: h.Vers, Credits: h.Credit,
		Type: h.Type.String(), Low: h.Low, High: h.High,
	}
	if h.Type == rpcrdma.MsgTypeError {
		j.Error = h.Err.String()
	}
	for _, s := range h.Read {
		js := jsonSegments(chunks.WriteChunk{s.Segment})[0]
		js.Position = new(s.Position)
		j.Reads = append(j.Reads, js)
	}
	for _, w := range h.Write {
		j.Writes = append(j.Writes, jsonSegments(w))
	}
	if h.HasReply {
		j.Reply = jsonSegments(h.Reply)
	}
	return j
}

func jsonSegments(w chunks.WriteChunk) []jsonSegment {
	segs := make([]jsonSegment, len(w))
	for i, s := range w {
		segs[i] = jsonSegment{Handle: s.Handle.String(), Length: s.Length, Offset: fmt.Sprintf("%#x", s.Offset)}
	}
	return segs
}

func (r *RPC) json() *jsonRPC {
	j := &jsonRPC{
		XID: fmt.Sprintf("%#08x", r.XID), Type: "call", Name: r.Name,
		Program: r.Prog, Version: r.Vers, Procedure: r.Proc,
		Status: r.Status, CallFrame: r.CallFrame, GSS: r.GSS, Backward: r.Backward, Whole: r.Whole, Len: len(r.Body),
	}
	j.Keys = keys(r.Message)
	if c := r.CCP; c != nil {
		j.CCP = &jsonCCP{c.MaxCallSend, c.MaxReplySend, c.Align, c.MaxRDMARead}
	}
	if c := r.Compound; c != nil {
		for _, op := range c.Ops {
			n := jsonNFS{Opcode: op.Num, Name: op.Name, Moved: op.Moved}
			if r.IsReply {
				n.Status = nfs4Status(op.Status)
			}
			j.Operations = append(j.Operations, n)
		}
	}
	switch {
	case r.Pulled:
		j.Type = "pulled"
	case r.IsReply:
		j.Type = "reply"
	}
	if r.Reply != nil {
		j.Accept = "SUCCESS"
		if err := r.Reply.Err(); err != nil {
			j.Accept = err.Error()
		}
	}
	return j
}
