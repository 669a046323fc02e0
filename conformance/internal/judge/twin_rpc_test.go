package judge_test

import (
	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// RPC builds a conversation of RPC-over-RDMA: the initiator calls.
//
//	t := NewRPC()
//	t.Do(t.Null())
//	x := t.ReadFile(5000)
//	x.Reply.Header.Write[0][0].Length++ // the mutation
//	t.Do(x)
type RPC struct {
	*Trace
	Private [2]rpcrdma.PrivateData // what either side announces at the start; used by the first Do
	Plain   bool                   // no private data
	begun   bool
	xid     uint32
	tag     uint32
}

// NewRPC returns an empty conversation: inline thresholds of 4096 octets, and both sides support
// invalidation.
func NewRPC() *RPC {
	p := rpcrdma.PrivateData{RemoteInvalidate: true, SendSize: 4096, RecvSize: 4096}
	return &RPC{Trace: New(), Private: [2]rpcrdma.PrivateData{p, p}, xid: 0x1000, tag: 0x500}
}

// Message is a call or a reply.
type Message struct {
	Header     rpcrdma.Header
	Body       []byte // after the header
	Invalidate ddp.STag
	Raw        []byte // in place of header and body
	Skip       bool   // is not sent
}

// Move is an RDMA Write.
type Move struct {
	STag ddp.STag
	TO   uint64
	Data []byte
}

// Exchange is a call, what RDMA moves for it, and its reply.
type Exchange struct {
	Dir         decode.Dir // of the call
	Call, Reply Message
	Pulls       []decode.ReadRequest // by the responder
	Data        []byte               // what the Pulls bring, from the beginning
	Writes      []Move               // by the responder
}

// Begin adds the startup, unless it is there already.
func (t *RPC) Begin() {
	if t.begun {
		return
	}
	t.begun = true
	for dir, add := range []func(mpa.Frame) *Frame{t.Request, t.Trace.Reply} {
		f := usualFrame()
		if !t.Plain {
			f.PrivateData = t.Private[dir].Append(nil)
		}
		add(f)
	}
}

// Do adds an exchange.
func (t *RPC) Do(x *Exchange) {
	t.Ask(x)
	t.Answer(x)
}

// Ask adds the call of an exchange.
func (t *RPC) Ask(x *Exchange) {
	t.Begin()
	t.message(x.Dir, &x.Call)
}

// Answer adds what follows the call.
func (t *RPC) Answer(x *Exchange) {
	at := 0
	for _, r := range x.Pulls {
		t.ReadRequest(1-x.Dir, r)
		data := make([]byte, r.Size)
		at += copy(data, x.Data[min(at, len(x.Data)):])
		t.Tagged(x.Dir, verbs.OpReadResponse, r.SinkSTag, r.SinkTO, data)
	}
	for _, w := range x.Writes {
		t.Write(1-x.Dir, w.STag, w.TO, w.Data)
	}
	t.message(1-x.Dir, &x.Reply)
}

func (t *RPC) message(dir decode.Dir, m *Message) {
	b := m.Raw
	if b == nil {
		b = append(m.Header.Append(nil), m.Body...)
	}
	switch {
	case m.Skip:
	case m.Invalidate != 0:
		t.SendInvalidate(dir, m.Invalidate, b)
	default:
		t.Send(dir, b)
	}
}

// Exchange returns a call of a program and its reply, both inline.
func (t *RPC) Exchange(prog, vers, proc uint32, args, results []byte) *Exchange {
	t.xid++
	x := &Exchange{Dir: I}
	call := xdr.CallHeader{XID: t.xid, RPCVers: xdr.RPCVersion, Prog: prog, Vers: vers, Proc: proc}
	reply := xdr.ReplyHeader{XID: t.xid}
	x.Call.Header = rpcrdma.Header{XID: t.xid, Vers: rpcrdma.Version, Credit: 32}
	x.Reply.Header = rpcrdma.Header{XID: t.xid, Vers: rpcrdma.Version, Credit: 16}
	x.Call.Body = append(xdr.AppendCall(nil, &call), args...)
	x.Reply.Body = append(xdr.AppendReply(nil, &reply), results...)
	return x
}

// Refuse makes the reply an RDMA_ERROR.
func (x *Exchange) Refuse(code rpcrdma.ErrCode) *Exchange {
	h := &x.Reply.Header
	*h = rpcrdma.Header{XID: h.XID, Vers: x.Call.Header.Vers, Credit: h.Credit, Type: rpcrdma.MsgTypeError, Err: code}
	if code == rpcrdma.ErrVers {
		h.Low, h.High = 1, 1
	}
	x.Reply.Body, x.Pulls, x.Writes = nil, nil, nil
	return x
}

// NewSegment returns memory of n octets under an STag of its own.
func (t *RPC) NewSegment(n int) chunks.Segment {
	t.tag += 0x100
	return chunks.Segment{Handle: chunks.Handle(t.tag), Length: uint32(n), Offset: uint64(t.tag) << 16}
}

// Pull returns the Read Request for a segment.
func Pull(s chunks.Segment) decode.ReadRequest {
	return decode.ReadRequest{SinkSTag: 0x77, Size: s.Length, SourceSTag: ddp.STag(s.Handle), SourceTO: s.Offset}
}

// Fill spreads data over a copy of an offered chunk, and returns it with the Writes that do so.
func Fill(offered chunks.WriteChunk, data []byte) (chunks.WriteChunk, []Move) {
	c := append(chunks.WriteChunk(nil), offered...)
	_ = c.Fill(len(data))
	var moves []Move
	for _, w := range chunks.AppendWrite(nil, c, data) {
		moves = append(moves, Move{ddp.STag(w.Handle), w.Offset, w.Data})
	}
	return c, moves
}
