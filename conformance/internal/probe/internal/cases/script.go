package cases

import (
	"encoding/binary"
	"fmt"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// script builds a try. It begins with a NULL call that is answered, so that credits are granted and the rest
// happens on an established connection.
type script struct {
	Try
	g   *gen
	msn uint32 // of the next Send
	req uint32 // of the next message of queue 1
	bad uint32 // the XID that the try is about
}

// gen builds the table. No XID occurs twice in it, or a duplicate request cache would answer.
type gen struct {
	Target
	serial uint32
}

func (g *gen) xid() uint32 {
	g.serial++
	return g.serial
}

// rpc begins a try after a NULL call.
func (g *gen) rpc(name string) *script {
	s := g.bare(name)
	s.Hello = g.xid()
	s.send(g.null(s.Hello))
	s.Steps[0].Await = s.Hello
	return s
}

// bare begins a try without one.
func (g *gen) bare(name string) *script {
	return &script{Try: Try{Name: name}, g: g, msn: ddp.FirstMSN, req: ddp.FirstMSN, bad: g.xid()}
}

// about says that xid must be answered.
func (s *script) about(xids ...uint32) *script {
	s.Subjects = append(s.Subjects, xids...)
	return s
}

func (s *script) step(st Step) *script {
	s.Steps = append(s.Steps, st)
	return s
}

// ulpdu sends a DDP segment.
func (s *script) ulpdu(u []byte) *script { return s.step(Step{ULPDU: u}) }

// send sends a message in one segment, and notes what its lists offer.
func (s *script) send(msg []byte) *script {
	u := untagged(uint8(verbs.OpSend), ddp.QNSend, s.msn, msg)
	s.msn++
	s.offer(msg)
	return s.ulpdu(u)
}

// offer records the memory that the header of msg offers, even if it does not exist.
func (s *script) offer(msg []byte) {
	s.Said = append(s.Said, declared(msg)...)
	var h rpcrdma.Header
	if _, err := h.Decode(msg, nil); err == nil && h.XID == s.bad {
		s.Lists = h.Lists
	}
}

// then ends the try with another NULL call, which must be answered.
func (s *script) then(wants ...[]Want) Try {
	s.After = s.g.xid()
	s.send(s.g.null(s.After))
	s.Steps[len(s.Steps)-1].Spare = true
	return s.want(wants...)
}

// want ends the try.
func (s *script) want(wants ...[]Want) Try {
	for _, w := range wants {
		s.Wants = append(s.Wants, w...)
	}
	return s.Try
}

// memory offers data under an STag of the probe.
func (s *script) memory(data []byte, how Reading) chunks.Segment {
	seg := s.segment(len(data))
	s.Memory = append(s.Memory, Memory{Segment: seg, Data: data, Reading: how})
	return seg
}

// room offers n octets for writing.
func (s *script) room(n int) chunks.Segment {
	seg := s.segment(n)
	s.Memory = append(s.Memory, Memory{Segment: seg})
	return seg
}

func (s *script) segment(n int) chunks.Segment {
	k := uint32(len(s.Memory) + 1)
	return chunks.Segment{Handle: chunks.Handle(0x7e570000 + k<<8 + s.bad&0xff), Length: uint32(n), Offset: uint64(k) << 32}
}

// rdmapVersion1 is RV of a control octet (RFC 5040 Section 4.1); the opcode goes below.
const rdmapVersion1 = 0x40

// untagged returns the ULPDU of a message of one segment.
func untagged(opcode uint8, qn, msn uint32, body []byte) []byte {
	s := ddp.Segment{Last: true, Control: rdmapVersion1 | opcode, QN: qn, MSN: msn}
	return append(s.Append(nil), body...)
}

// tagged returns the ULPDU of a message of one segment.
func tagged(op verbs.Opcode, stag ddp.STag, to uint64, body []byte) []byte {
	s := ddp.Segment{Tagged: true, Last: true, Control: rdmapVersion1 | uint8(op), STag: stag, TO: to}
	return append(s.Append(nil), body...)
}

// readRequest returns the body of a Read Request (RFC 5040 Section 4.4).
func readRequest(size uint32, stag ddp.STag, to uint64) []byte {
	b := words(0x51ac0700, 0, 0, size, uint32(stag))
	return binary.BigEndian.AppendUint64(b, to)
}

// words returns big-endian 32-bit words.
func words(v ...uint32) []byte {
	var b []byte
	for _, w := range v {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

// Nudge returns an RDMA Write of no octets.
func Nudge() []byte { return tagged(verbs.OpWrite, 1, 0, nil) }

// Target is what the octets need to know about the peer.
type Target struct {
	Prog, Vers uint32 // the program whose procedure 0 is called
	Inline     int    // the largest Send of the cases, in octets, which it says it accepts
	Receives   int    // the largest Send that it says it accepts
	Grant      int    // credits that it has granted
	XID        uint32 // the calls count from here
	Handle     string // octets of an NFSv3 file handle that can be read; "": none
}

// call returns the NULL call of the target's program.
func (g Target) call(xid uint32) []byte {
	return xdr.AppendCall(nil, &xdr.CallHeader{XID: xid, RPCVers: xdr.RPCVersion, Prog: g.Prog, Vers: g.Vers})
}

// header returns a header of version 1.
func header(xid uint32, t rpcrdma.MsgType, l chunks.Lists) []byte {
	h := rpcrdma.Header{XID: xid, Vers: rpcrdma.Version, Credit: credits, Type: t, Lists: l}
	return h.Append(nil)
}

// credits is how many credits the probe asks for.
const credits = 8

// null returns an RDMA_MSG with a NULL call.
func (g Target) null(xid uint32) []byte {
	return append(header(xid, rpcrdma.MsgTypeMsg, chunks.Lists{}), g.call(xid)...)
}

// UsualRequest returns the MPA Request of all tries except those about Requests: revision 2, CRC, Reads both
// ways, thresholds of 4096 octets.
func UsualRequest() []byte { return usual().bytes() }

func usual() request {
	return request{mpa.Request{Frame: mpa.Frame{
		Rev: 2, CRC: true, Enhanced: true, Word: mpa.Enhanced{IRD: 16, ORD: 4},
		PrivateData: rpcrdma.PrivateData{SendSize: 4096, RecvSize: 4096}.Append(nil),
	}}}
}

type request struct{ mpa.Request }

// bytes returns the frame; all frames that are built here can be encoded.
func (r request) bytes() []byte {
	b, err := r.Append(nil)
	if err != nil {
		panic(err)
	}
	return b
}

// message is a Send of the peer.
func (w *Watcher) message(send []byte) {
	var h rpcrdma.Header
	n, err := h.Decode(send, nil)
	if err != nil && len(send) >= 20 && h.Type == rpcrdma.MsgTypeError && binary.BigEndian.Uint32(send[16:]) == uint32(rpcrdma.ErrChunk) {
		h.Err, err = rpcrdma.ErrChunk, nil // of an RDMA version that does not exist
	}
	if err != nil {
		w.answer(Answer{XID: h.XID, Kind: KindNonsense, Text: fmt.Sprintf("a Send of %d octets that does not decode: %v", len(send), err)})
		return
	}
	a := Answer{XID: h.XID, Credit: h.Credit}
	switch h.Type {
	case rpcrdma.MsgTypeError:
		w.rdmaError(&h, &a)
	case rpcrdma.MsgTypeMsg:
		w.rpcReply(&h, &a, send[n:])
	case rpcrdma.MsgTypeNoMsg:
		if msg, there := w.replyChunk(&h); there {
			w.rpcReply(&h, &a, msg)
		} else {
			a.Kind, a.Text = KindAnswered, "answered, into memory that does not exist"
		}
	default:
		a.Kind, a.Text = KindNonsense, h.Type.String()
	}
	w.answer(a)
}

// answer keeps a.
func (w *Watcher) answer(a Answer) {
	if a.Credit == 0 && a.Kind != KindNonsense {
		w.breach("a reply grants no credit (RFC 8166 Section 3.3.1)")
	}
	if w.Seen.Answer(a.XID) != nil && !w.try.Again {
		w.breach("a second answer to XID %#x", a.XID)
	}
	if len(w.Seen.Answers) < 1<<16 {
		w.Seen.Answers = append(w.Seen.Answers, a)
	}
}

func (w *Watcher) rdmaError(h *rpcrdma.Header, a *Answer) {
	switch h.Err {
	case rpcrdma.ErrVers:
		a.Kind, a.Text = KindErrVers, fmt.Sprintf("ERR_VERS %d to %d", h.Low, h.High)
		if h.Low > h.High || h.Low > rpcrdma.Version || h.High < rpcrdma.Version {
			w.breach("ERR_VERS says versions %d to %d, but this peer speaks 1", h.Low, h.High)
		}
	case rpcrdma.ErrChunk:
		a.Kind, a.Text = KindErrChunk, "ERR_CHUNK"
	}
}

// rpcReply reads an RPC reply. Those to NULL have no results.
func (w *Watcher) rpcReply(h *rpcrdma.Header, a *Answer, msg []byte) {
	var r xdr.ReplyHeader
	d := xdr.NewDecoder(msg)
	if err := r.Parse(&d); err != nil {
		a.Kind, a.Text = KindNonsense, fmt.Sprintf("an RPC reply that does not decode: %v", err)
		return
	}
	if r.XID != h.XID && !w.try.TwoXIDs {
		w.breach("rdma_xid is %#x, the XID of the reply %#x", h.XID, r.XID)
	}
	if len(h.Read) > 0 {
		w.breach("a reply with a read list (RFC 8166 Section 4.3.1)")
	}
	a.Kind, a.Text = replyKind(&r)
	if about := w.try.about(); about != 0 && h.XID == about {
		w.returned(h)
	}
}

// about is the XID of the call whose lists are Lists.
func (t *Try) about() uint32 {
	if len(t.Subjects) != 1 {
		return 0
	}
	return t.Subjects[0]
}

// returned compares the chunk lists of a reply with those of the call (RFC 8166 Section 4.3): unless the try is about
// READ, there is no result that could be in a write chunk.
func (w *Watcher) returned(h *rpcrdma.Header) {
	sent := &w.try.Lists
	if len(h.Write) != len(sent.Write) {
		w.breach("%d write chunks came back of %d", len(h.Write), len(sent.Write))
		return
	}
	n := uint64(0)
	for i, c := range h.Write {
		w.same("write chunk", c, sent.Write[i], w.try.Fills)
		for _, s := range c {
			n += uint64(s.Length)
		}
	}
	if w.try.Fills && n == 0 {
		w.breach("no data came: is the handle that of a file with 5 octets, which anybody may read?")
	}
	if h.HasReply && !sent.HasReply {
		w.breach("a reply chunk came back that was not offered")
	} else if h.HasReply {
		w.same("reply chunk", h.Reply, sent.Reply, true)
	}
}

func (w *Watcher) same(what string, got, sent chunks.WriteChunk, used bool) {
	if len(got) != len(sent) {
		w.breach("a %s of %d segments came back with %d", what, len(sent), len(got))
		return
	}
	for i, g := range got {
		s := sent[i]
		if g.Handle != s.Handle || g.Offset != s.Offset {
			w.breach("a segment of a %s came back as another one", what)
		}
		if g.Length > s.Length || g.Length > 0 && !used {
			w.breach("a segment of a %s, %d octets, came back with %d", what, s.Length, g.Length)
		}
	}
}

// replyChunk returns what the peer has written into the reply chunk, and nothing if the header offered
// memory that does not exist.
func (w *Watcher) replyChunk(h *rpcrdma.Header) (msg []byte, there bool) {
	for _, s := range h.Reply {
		found := s.Length == 0
		for i, m := range w.try.Memory {
			if m.Data == nil && within(m.Segment, ddp.STag(s.Handle), s.Offset, int(s.Length)) {
				at := s.Offset - m.Segment.Offset
				msg, found = append(msg, w.mem[i][at:at+uint64(s.Length)]...), true
			}
		}
		if !found {
			return msg, false
		}
	}
	return msg, true
}

func replyKind(r *xdr.ReplyHeader) (Kind, string) {
	if r.Denied {
		if r.Reject == xdr.RPCMismatch {
			return KindRPCMismatch, fmt.Sprintf("RPC_MISMATCH %d to %d", r.Low, r.High)
		}
		return KindAuthError, "AUTH_ERROR " + r.AuthStat.String()
	}
	switch r.Accept {
	case xdr.Success:
		return KindAnswered, "answered SUCCESS"
	case xdr.ProgUnavail:
		return KindProgUnavail, "PROG_UNAVAIL"
	case xdr.ProgMismatch:
		return KindProgMismatch, fmt.Sprintf("PROG_MISMATCH %d to %d", r.Low, r.High)
	case xdr.ProcUnavail:
		return KindProcUnavail, "PROC_UNAVAIL"
	case xdr.GarbageArgs:
		return KindGarbageArgs, "GARBAGE_ARGS"
	case xdr.SystemErr:
		return KindSystemErr, "SYSTEM_ERR"
	}
	return KindNonsense, "accept_stat " + r.Accept.String()
}

// readLen is the size of the header of a Read Request (RFC 5040 Section 4.4).
const readLen = 28

// within reports whether n octets at to of stag are inside s. An offset before s wraps, and so is far beyond
// its end.
func within(s chunks.Segment, stag ddp.STag, to uint64, n int) bool {
	return s.Handle == chunks.Handle(stag) && to-s.Offset <= uint64(s.Length) && uint64(n) <= uint64(s.Length)-(to-s.Offset)
}

// tagged is an RDMA Write, or the response to a Read of ours.
func (w *Watcher) tagged(s *ddp.Segment, body []byte) {
	op := verbs.Opcode(s.Control & 0x0f)
	switch {
	case op == verbs.OpReadResponse && len(body) == 0:
		w.Seen.Reads++
		return
	case op != verbs.OpWrite:
		w.breach("a tagged message with opcode %v", op)
		return
	case len(body) == 0: // a zero-length RDMA Write needs no memory
		return
	}
	for i, m := range w.try.Memory {
		if m.Data == nil && within(m.Segment, s.STag, s.TO, len(body)) {
			copy(w.mem[i][s.TO-m.Segment.Offset:], body)
			w.touched(fmt.Sprintf("wrote %d octets", len(body)))
			return
		}
	}
	w.outside("wrote", s.STag, s.TO, len(body))
	w.refuse(verbs.TermCode{Layer: 1, EType: 1})
}

// outside is an access to memory that does not exist. If it was offered all the same, as bait, the access is
// fine.
func (w *Watcher) outside(did string, stag ddp.STag, to uint64, n int) {
	what := fmt.Sprintf("%s %d octets at %#x of STag %#x", did, n, to, uint32(stag))
	for _, s := range w.try.Said {
		if within(s, stag, to, n) {
			w.touched(what)
			return
		}
	}
	w.breach("it %s, which nobody has offered", what)
}

func (w *Watcher) touched(s string) {
	if n := len(w.Seen.Touched); n < 3 {
		w.Seen.Touched = append(w.Seen.Touched, s)
	}
}

// refuse sends a Terminate, once.
func (w *Watcher) refuse(code verbs.TermCode) {
	if !w.Seen.Refused {
		w.Seen.Refused = true
		t := verbs.Terminate{Code: code}
		w.out = append(w.out, untagged(uint8(verbs.OpTerminate), ddp.QNTerminate, 1, t.Append(nil)))
	}
}

// read answers a Read Request as its memory demands.
func (w *Watcher) read(msg []byte) {
	be := binary.BigEndian
	sink, sinkTO, size := ddp.STag(be.Uint32(msg)), be.Uint64(msg[4:]), int(be.Uint32(msg[12:]))
	stag, to := ddp.STag(be.Uint32(msg[16:])), be.Uint64(msg[20:])
	if w.Seen.Refused {
		return
	}
	for _, m := range w.try.Memory {
		if m.Data != nil && m.Reading != ReadRefused && within(m.Segment, stag, to, size) {
			w.touched(fmt.Sprintf("read %d octets", size))
			at := to - m.Segment.Offset
			if data := m.Data[at : at+uint64(size)]; m.cut != nil {
				w.respondCut(m.cut, sink, sinkTO, data)
			} else {
				w.respond(m.Reading, sink, sinkTO, data)
			}
			return
		}
	}
	w.outside("read", stag, to, size)
	w.refuse(verbs.TermCode{Layer: 0, EType: 1})
}

// respond answers a Read with data, or as the memory demands.
func (w *Watcher) respond(how Reading, sink ddp.STag, to uint64, data []byte) {
	switch how {
	case ReadWhole, ReadCut: // see respondCut
	case ReadNever:
		return
	case ReadShort:
		data = data[:len(data)-min(len(data), 4)]
	case ReadLong:
		data = append(append([]byte(nil), data...), 0, 0, 0, 0)
	case ReadElsewhere:
		sink ^= 0x00ffff00
	case ReadPast:
		to += 4
	case ReadRefused:
		return
	}
	w.out = append(w.out, tagged(verbs.OpReadResponse, sink, to, data))
}
