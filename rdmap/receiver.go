package rdmap

import (
	"errors"
	"sync/atomic"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/mutant"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// eventKind is the kind of event that one ULPDU results in.
type eventKind uint8

const (
	evNone      eventKind = iota // octets placed, or nothing to do
	evMessage                    // a Send was delivered: msg, and buf to be given back
	evRepeat                     // a Send was delivered: the message of the staging
	evRequest                    // a request was queued: the sender has work
	evReadDone                   // a Read of ours is complete
	evTerminate                  // the peer's Terminate: the stream is over
	evStalled                    // queue 0 waits for memory, and the ULPDU was put off
	evBlocked                    // the same, but no more can be put off: pass it again
)

type event struct {
	kind eventKind
	msg  verbs.Message
	buf  buf.Mem // memory of msg.Data; nil: it lies in the ULPDU
	term *verbs.TerminateError
	// settled: the receive of msg has been posted again.
	settled bool
}

// clear drops the references of ev.
func (ev *event) clear() { ev.msg.Data, ev.buf, ev.term = nil, nil, nil }

// receiver is the receiving half of an engine: ULPDUs in; placements, events and
// requests out. It does no I/O and has no lock; one goroutine at a time uses it.
// Only recvs may be changed by others.
type receiver struct {
	ddp    *ddp.Receiver
	ext    verbs.Extensions
	mask   uint8 // opcode bits of the control octet
	table  *region.Table
	up     inFlight
	df     mpa.Deframer
	direct direct
	held   bool         // nothing may be sent before the first FPDU (RFC 5044 Section 7.1.2)
	due    []completion // that an answer has made due
	recvs  atomic.Int64 // receives posted and not yet used
	shared *share       // instead of recvs; nil if it has its own

	size     int // largest Send
	pool     *buf.Pool
	keep     bool        // messages are kept, so they need memory of their own
	buf      buf.Mem     // of the Send being assembled
	claim    buf.Claim   // for buf
	arriving buf.Arrival // that Send, while it has memory and is not complete
	rtrSend  bool        // the first FPDU may be a zero-length Send that is an RTR
	rtr      bool        // the present FPDU is such a Send
	readGot  uint64      // octets of the Read Response in progress
	view     region.View
	scratch  []byte           // sink of cancelled Reads
	request  [maxRequest]byte // a request in several segments
	arrived  request          // a request on its way to the sending half
	termBuf  [maxTerminate]byte
	now      verbs.Opcode  // of the segment being placed
	answer   [maxHash]byte // a response on queue 3 in several segments
	off      putOff
	in       traffic
	ev       event // of the last ULPDU
	inPlace  bool  // the payload of the present ULPDU was read into its place
}

// maxTerminate is the longest Terminate accepted, octets. What follows the headers is ignored.
const maxTerminate = 128

type receiverConfig struct {
	ext   verbs.Extensions
	table *region.Table
	up    inFlight
	size  int
	recvs int
	queue *recvQueue // nil: it has its own receives
	quota int
	pool  *buf.Pool
	keep  bool
}

func newReceiver(cfg receiverConfig) *receiver {
	r := &receiver{
		table: cfg.table, up: cfg.up,
		size: cfg.size, pool: cfg.pool, keep: cfg.keep,
	}
	r.recvs.Store(int64(cfg.recvs))
	if cfg.queue != nil {
		r.shared = &share{q: cfg.queue, quota: cfg.quota}
	}
	r.admit(cfg.ext)
	return r
}

// admit sets the extensions in force. Nothing may have been received yet.
func (r *receiver) admit(ext verbs.Extensions) {
	r.ext, r.mask = ext, 0x0f
	if ext&verbs.ExtCommit != 0 {
		r.mask = 0x1f // the draft's opcodes are five bits wide
	}
	var answers ddp.Queue // without extensions there is no queue 3
	if ext != extBase {
		answers = (*answerQueue)(r)
	}
	r.ddp = ddp.NewReceiver(ddp.Config{
		Queues:     [ddp.NumQueues]ddp.Queue{(*sendQueue)(r), (*requestQueue)(r), (*terminateQueue)(r), answers},
		Sinks:      (*sinks)(r),
		OpcodeMask: r.mask,
	})
}

// next handles what is pending in st, up to an event for others, or until no FPDU is complete (evNone). It returns the
// staging that now holds what is pending.
func (r *receiver) next(st *buf.Staging) (*buf.Staging, *event, error) {
	if r.direct.on {
		to, ev, err := r.land(st)
		if err != nil || ev.kind != evNone {
			return to, ev, err
		}
		st = to
	}
	for {
		u, n, err := r.df.Next(st.Pending())
		if err != nil {
			return st, nil, r.mute(protocolError(err, nil))
		}
		if n == 0 {
			r.ev.kind = evNone
			return st, &r.ev, nil
		}
		if r.repeats(u) {
			st.R += n
			r.repeat(u[ddp.UntaggedLen:], &st.Msg)
			r.ev.kind = evRepeat
			return st, &r.ev, nil
		}
		// The CRC was good, so this is the valid FPDU after which a responder may send, be it only a Terminate for what
		// DDP or RDMAP have against it.
		if r.held && !mutant.SilentFirst {
			r.held = false
			r.up.release()
		}
		ev, err := r.input(u)
		switch {
		case err != nil:
			return st, nil, r.mute(err)
		case ev.kind == evBlocked:
			r.df.Unread()
			return st, ev, nil
		}
		st.R += n
		if ev.kind != evNone {
			return st, ev, nil
		}
		st.R += r.follow(&r.df, st.Pending())
	}
}

// mute marks an error of MPA in the first FPDU at the responder, which may not yet send anything, not even
// a Terminate.
func (r *receiver) mute(err error) error {
	if p, ok := errors.AsType[*verbs.ProtocolError](err); ok && r.held {
		p.Terminate = nil
	}
	return err
}

// input handles one ULPDU. u is borrowed, unless the message of the event lends it. An error is final;
// a *ProtocolError says which Terminate it asks for. If there is no error, the event is valid until
// the next call.
func (r *receiver) input(u []byte) (*event, error) {
	if r.off.len() > 0 && r.off.waits(u) {
		return r.putOff(u), nil
	}
	return r.accept(u)
}

// accept is input for a ULPDU whose turn it is.
func (r *receiver) accept(u []byte) (*event, error) {
	r.ev.kind = evNone
	if r.in.fpdus > 0 {
		r.rtrSend = false
	}
	seg, err := r.ddp.Header(u, len(u))
	if err != nil {
		return nil, protocolError(err, u)
	}
	op, v := r.opcode(seg)
	if v != vioNone {
		return nil, r.refuse(v, u, wantGot("RDMAP version 1, opcode of this T and QN", seg.String()))
	}
	payload := u[seg.HeaderLen():]
	r.now = op
	r.rtr = r.rtrSend && op == verbs.OpSend && seg.Last && len(payload) == 0
	if op == verbs.OpReadResponse {
		if v := r.checkResponse(seg, len(payload)); v != vioNone {
			return nil, r.refuse(v, u, nil)
		}
	}
	done, err := r.place(u, payload)
	if err != nil {
		if errors.Is(err, ddp.ErrStalled) {
			return r.putOff(u), nil
		}
		return nil, unanswered(op, err)
	}
	r.count(op, &done)
	if done.Delivered {
		if err := r.deliver(op, seg, done.Data, u); err != nil {
			return nil, unanswered(op, err)
		}
	}
	return &r.ev, nil
}

// unanswered mutes an error found in a Terminate: it is a local error, since a Terminate is not
// answered with a Terminate (RFC 5040 Section 5.4).
func unanswered(op verbs.Opcode, err error) error {
	if op != verbs.OpTerminate {
		return err
	}
	if p, ok := errors.AsType[*verbs.ProtocolError](err); ok {
		p.Terminate = nil
	}
	return err
}

// refuse ends the inbound direction for a violation of RDMAP in segment u.
func (r *receiver) refuse(v violation, u []byte, cause error) error {
	n := ddp.UntaggedLen
	if u[0]&0x80 != 0 {
		n = ddp.TaggedLen
	}
	err := v.refuse(u, n, cause)
	r.ddp.Fail(err)
	return err
}

// opcode checks the control octet of a segment (RFC 5040 Section 4.1). Bit 0x10 is the fifth
// opcode bit of the commit draft. Without that extension an untagged segment with the bit is refused,
// since 0x51 must never be taken for a Read Request.
func (r *receiver) opcode(s *ddp.Segment) (verbs.Opcode, violation) {
	if s.Control>>6 != rdmapVersion {
		return 0, vioVersion
	}
	op := verbs.Opcode(s.Control & r.mask)
	if r.ext&verbs.ExtCommit == 0 && !s.Tagged && s.Control&0x10 != 0 || int(op) >= len(forms) {
		return 0, vioOpcode
	}
	switch ext := forms[op].ext; {
	case ext != extBase && ext&r.ext == 0,
		op.Tagged() != s.Tagged,
		!s.Tagged && op.Queue() != s.QN:
		return 0, vioOpcode
	}
	return op, vioNone
}

// checkResponse compares a Read Response segment with the oldest Read in flight, before anything is
// placed. Its octets have to be the next ones of the sink: else a peer could send some of them twice and
// others never, and the Read would complete over whatever lay there before. RFC 5041 Section 5.2.1 has
// segments of a message in order as a SHOULD; siw demands it as well (siw_rresp_check_ntoh). STag and TO
// of an empty segment, which places nothing, are not checked.
func (r *receiver) checkResponse(s *ddp.Segment, n int) violation {
	rd, ok := r.up.head()
	if !ok || rd.op != verbs.OpReadRequest {
		return vioNoRead
	}
	if n == 0 {
		return vioNone
	}
	if region.STag(s.STag) != rd.sink {
		return vioNoRead
	}
	if s.TO != rd.sinkTO+r.readGot && !mutant.ReadAnyOrder || uint64(n) > uint64(rd.size)-(s.TO-rd.sinkTO) {
		return vioReadBounds
	}
	return vioNone
}

// deliver acts on a delivered message (RFC 5041 Section 5.4). data is the payload if it is untagged.
func (r *receiver) deliver(op verbs.Opcode, s *ddp.Segment, data, u []byte) error {
	if f := &forms[op]; !s.Tagged && (f.min > len(data) || f.max >= 0 && f.max < len(data)) {
		return r.refuse(vioLength, u, wantGot(f.min, len(data)))
	}
	switch {
	case isMessage(op):
		return r.deliverSend(op, s, data, u)
	case op == verbs.OpReadResponse:
		return r.deliverResponse(u)
	case op == verbs.OpTerminate:
		r.deliverTerminate(data)
	case op.Queue() == ddp.QNRequest && !s.Tagged:
		return r.deliverRequest(op, data, u)
	case op.Queue() == ddp.QNResponse && !s.Tagged:
		return r.deliverAnswer(op, data, u)
	}
	return nil
}

// deliverSend delivers a Send or Immediate Data. It invalidates the STag of a Send with Invalidate
// "before" the Send is completed to the ULP (RFC 5040 Section 5.3).
func (r *receiver) deliverSend(op verbs.Opcode, s *ddp.Segment, data, u []byte) error {
	if r.arriving.IsOpen() {
		r.pool.Ended(&r.arriving)
	}
	if r.rtr {
		return nil
	}
	ev, buf := &r.ev, r.buf
	r.buf = nil
	ev.msg.Invalidated = 0
	if op.Invalidates() {
		stag := region.STag(s.ULP)
		if err := r.table.RemoteInvalidate(stag); err != nil {
			r.pool.Put(buf)
			return r.refuse(vioInvalidate, u, err)
		}
		ev.msg.Invalidated = stag
	}
	if r.shared != nil {
		r.shared.open = false
	}
	ev.kind, ev.buf, ev.settled = evMessage, buf, false
	ev.msg.Op, ev.msg.Data, ev.msg.Solicited = op, data, op.Solicited()
	return nil
}

// deliverResponse completes the oldest Read. With the L bit, all its octets must have arrived.
func (r *receiver) deliverResponse(u []byte) error {
	rd, _ := r.up.head()
	got := r.readGot
	r.readGot = 0
	if got != uint64(rd.size) {
		return r.refuse(vioReadShort, u, wantGot(rd.size, got))
	}
	if rd.invalidate {
		r.table.Revoke(rd.sink)
	}
	r.due = r.up.answered(r.due)
	r.ev.kind = evReadDone
	return nil
}

// deliverRequest puts a request into an IRD slot. When the message began, there was a free slot; only
// the sending half frees slots.
func (r *receiver) deliverRequest(op verbs.Opcode, data, u []byte) error {
	if !executable(op) {
		return r.refuse(vioOpcode, u, nil)
	}
	r.arrived = request{op: op, n: uint8(len(data)), segLen: uint16(len(u)), swap: r.ext&verbs.ExtSwap != 0}
	copy(r.arrived.hdr[:], u)
	copy(r.arrived.body[:], data)
	if !r.up.enqueue(&r.arrived) {
		return r.refuse(vioOpcode, u, nil)
	}
	r.ev.kind = evRequest
	return nil
}

// deliverTerminate ends the stream, even if not all of b can be parsed.
func (r *receiver) deliverTerminate(b []byte) {
	t, _ := verbs.ParseTerminate(b)
	r.ev.kind, r.ev.term = evTerminate, &verbs.TerminateError{Terminate: cloned(t)}
}

func (r *receiver) count(op verbs.Opcode, ev *ddp.Event) {
	r.in.fpdus++
	if ev.Delivered {
		r.in.message(op, 1)
	}
	switch op {
	case verbs.OpWrite:
		r.in.writeOctets += uint64(ev.Placed)
	case verbs.OpReadResponse:
		r.in.readOctets += uint64(ev.Placed)
		r.readGot += uint64(ev.Placed)
	default:
	}
}

// close gives back what the receiver holds.
func (r *receiver) close() {
	if r.shared != nil {
		r.shared.end()
	}
	r.view.Release()
	r.pool.Ended(&r.arriving)
	r.pool.Put(r.buf)
	r.pool.Leave(&r.claim)
	r.pool.Forget(r.off.len())
	r.buf, r.scratch, r.off = nil, nil, putOff{}
}
