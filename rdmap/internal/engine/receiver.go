package engine

import (
	"encoding/binary"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// eventKind is the kind of event that one ULPDU results in.
type eventKind uint8

const (
	EvNone      eventKind = iota // octets placed, or nothing to do
	EvMessage                    // a Send was delivered: msg, and buf to be given back
	EvRepeat                     // a Send was delivered: the message of the staging
	EvRequest                    // a request was queued: the sender has work
	EvReadDone                   // a Read of ours is complete
	EvTerminate                  // the peer's Terminate: the stream is over
	EvStalled                    // queue 0 waits for memory, and the ULPDU was put off
	EvBlocked                    // it still waits; or no more can be put off: pass it again
)

// Event is what one ULPDU has led to.
type Event struct {
	Kind eventKind
	Msg  verbs.Message
	Buf  buf.Mem // memory of msg.Data; nil: it lies in the ULPDU
	Term *verbs.TerminateError
}

// Clear drops the references of ev.
func (ev *Event) Clear() { ev.Msg.Data, ev.Buf, ev.Term = nil, nil, nil }

// Receiver is the receiving half of an engine: ULPDUs in; placements, events and
// requests out. It does no I/O and has no lock; one goroutine at a time uses it.
// Only recvs may be changed by others.
type Receiver struct {
	ddp      *ddp.Receiver
	ext      verbs.Extensions
	mask     uint8 // opcode bits of the control octet
	table    *region.Table
	up       inFlight
	Deframer mpa.Deframer
	direct   direct
	Writes   int          // reads for which long Writes into Scratch memory are expected
	Due      []Completion // that an answer has made due
	Recvs    atomic.Int64 // receives posted and not yet used

	size     int // largest Send
	pool     *buf.Pool
	keep     bool        // messages are kept, so they need memory of their own
	buf      buf.Mem     // of the Send being assembled
	Claim    buf.Claim   // for buf
	Arriving buf.Arrival // that Send, while it has memory and is not complete
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
	Backlog  backlog
	Wait     memoryWait // of the first of those that are put off
	In       Traffic
	ev       Event // of the last ULPDU
	inPlace  bool  // the payload of the present ULPDU was read into its place
}

// maxTerminate is the longest Terminate accepted, octets. What follows the headers is ignored.
const maxTerminate = 128

// ReceiverConfig is what a Receiver needs.
type ReceiverConfig struct {
	Table  *region.Table
	Lock   sync.Locker // under which work requests are posted
	Sender *Sender
	Size   int
	Recvs  int
	Pool   *buf.Pool
	Keep   bool
	Memory time.Duration // longest wait for memory of the Pool
}

// NewReceiver returns a Receiver that has received nothing.
func NewReceiver(cfg ReceiverConfig) *Receiver {
	r := &Receiver{
		table: cfg.Table, up: inFlight{cfg.Lock, cfg.Sender},
		size: cfg.Size, pool: cfg.Pool, keep: cfg.Keep, Wait: memoryWait{Limit: cfg.Memory},
	}
	r.Recvs.Store(int64(cfg.Recvs))
	r.admit(ExtBase)
	return r
}

// LimitSize lowers the size of receives to n. Nothing may have been received yet.
func (r *Receiver) LimitSize(n int) { r.size = min(r.size, n) }

// admit sets the extensions in force. Nothing may have been received yet.
func (r *Receiver) admit(ext verbs.Extensions) {
	r.ext, r.mask = ext, 0x0f
	if ext&verbs.ExtCommit != 0 {
		r.mask = 0x1f // the draft's opcodes are five bits wide
	}
	var answers ddp.Queue // without extensions there is no queue 3
	if ext != ExtBase {
		answers = (*answerQueue)(r)
	}
	r.ddp = ddp.NewReceiver(ddp.Config{
		Queues:     [ddp.NumQueues]ddp.Queue{(*sendQueue)(r), (*requestQueue)(r), (*terminateQueue)(r), answers},
		Sinks:      (*sinks)(r),
		OpcodeMask: r.mask,
	})
}

// Next handles what is pending in st, up to an event for others, or until no FPDU is complete (evNone). It returns the
// staging that now holds what is pending.
func (r *Receiver) Next(st *buf.Staging) (*buf.Staging, *Event, error) {
	if r.direct.on {
		to, ev, err := r.land(st)
		if err != nil || ev.Kind != EvNone {
			return to, ev, err
		}
		st = to
	}
	for {
		u, n, err := r.Deframer.Next(st.Pending())
		if err != nil {
			return st, nil, protocolError(err, nil)
		}
		if n == 0 {
			r.ev.Kind = EvNone
			return st, &r.ev, nil
		}
		if r.repeats(u) {
			st.R += n
			r.repeat(u[ddp.UntaggedLen:], &st.Msg)
			r.ev.Kind = EvRepeat
			return st, &r.ev, nil
		}
		// The CRC was good, so this is the valid FPDU after which a responder may send, be it only a Terminate for what
		// DDP or RDMAP have against it.
		if r.up.snd.State() == StateHeld {
			r.up.release()
		}
		ev, err := r.input(u)
		switch {
		case err != nil:
			return st, nil, err
		case ev.Kind == EvBlocked:
			r.Deframer.Unread()
			return st, ev, nil
		}
		st.R += n
		if ev.Kind != EvNone {
			return st, ev, nil
		}
		st.R += r.continueRun(&r.Deframer, st.Pending())
	}
}

// input handles one ULPDU. u is borrowed, unless the message of the event lends it. An error is final;
// a *ProtocolError says which Terminate it asks for. If there is no error, the event is valid until
// the next call.
func (r *Receiver) input(u []byte) (*Event, error) {
	if r.Backlog.Len() > 0 && r.Backlog.waits(u) {
		return r.putOff(u), nil
	}
	return r.accept(u)
}

// accept is input for a ULPDU whose turn it is.
func (r *Receiver) accept(u []byte) (*Event, error) {
	r.ev.Kind = EvNone
	if r.In.FPDUs > 0 {
		r.rtrSend = false // only the first FPDU may be one (RFC 6581 Section 9.2)
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
	r.now = op // before anything is placed: the queues ask for it
	r.rtr = r.rtrSend && op == verbs.OpSend && seg.Last && len(payload) == 0
	if op == verbs.OpReadResponse {
		if v := r.checkResponse(seg, len(payload)); v != vioNone {
			return nil, r.refuse(v, u, nil)
		}
	}
	done, err := r.place(u, payload)
	if err != nil {
		if errors.Is(err, ddp.ErrStalled) {
			return r.putOff(u), nil // nothing was placed, so that u can be handled again
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
func (r *Receiver) refuse(v violation, u []byte, cause error) error {
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
func (r *Receiver) opcode(s *ddp.Segment) (verbs.Opcode, violation) {
	if s.Control>>6 != rdmapVersion {
		return 0, vioVersion
	}
	op := verbs.Opcode(s.Control & r.mask)
	if r.ext&verbs.ExtCommit == 0 && !s.Tagged && s.Control&0x10 != 0 || int(op) >= len(forms) {
		return 0, vioOpcode
	}
	switch ext := forms[op].ext; {
	case ext != ExtBase && ext&r.ext == 0, // as if it were unknown
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
func (r *Receiver) checkResponse(s *ddp.Segment, n int) violation {
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
	if s.TO != rd.sinkTO+r.readGot || uint64(n) > uint64(rd.size)-(s.TO-rd.sinkTO) {
		return vioReadBounds
	}
	return vioNone
}

// deliver acts on a delivered message (RFC 5041 Section 5.4). data is the payload if it is untagged.
func (r *Receiver) deliver(op verbs.Opcode, s *ddp.Segment, data, u []byte) error {
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
func (r *Receiver) deliverSend(op verbs.Opcode, s *ddp.Segment, data, u []byte) error {
	if r.Arriving.IsOpen() {
		r.pool.Ended(&r.Arriving) // nobody may reclaim its memory any more
	}
	if r.rtr {
		return nil
	}
	ev, buf := &r.ev, r.buf
	r.buf = nil
	ev.Msg.Invalidated = 0
	if op.Invalidates() {
		stag := region.STag(s.ULP)
		if err := r.table.RemoteInvalidate(stag); err != nil {
			r.pool.Put(buf)
			return r.refuse(vioInvalidate, u, err)
		}
		ev.Msg.Invalidated = stag
	}
	ev.Kind, ev.Buf = EvMessage, buf
	ev.Msg.Op, ev.Msg.Data, ev.Msg.Solicited = op, data, op.Solicited()
	return nil
}

// deliverResponse completes the oldest Read. With the L bit, all its octets must have arrived.
func (r *Receiver) deliverResponse(u []byte) error {
	rd, _ := r.up.head()
	got := r.readGot
	r.readGot = 0
	if got != uint64(rd.size) {
		return r.refuse(vioReadShort, u, wantGot(rd.size, got))
	}
	if rd.invalidate {
		r.table.Revoke(rd.sink) // before the completion: then nobody can store there
	}
	r.Due = r.up.answered(r.Due)
	r.ev.Kind = EvReadDone
	return nil
}

// deliverRequest puts a request into an IRD slot. When the message began, there was a free slot; only
// the sending half frees slots.
func (r *Receiver) deliverRequest(op verbs.Opcode, data, u []byte) error {
	if !executable(op) {
		return r.refuse(vioOpcode, u, nil)
	}
	r.arrived = request{Op: op, n: uint8(len(data)), segLen: uint16(len(u)), swap: r.ext&verbs.ExtSwap != 0}
	copy(r.arrived.hdr[:], u)
	copy(r.arrived.Body[:], data)
	if !r.up.enqueue(&r.arrived) {
		return r.refuse(vioOpcode, u, nil)
	}
	r.ev.Kind = EvRequest
	return nil
}

// deliverTerminate ends the stream, even if not all of b can be parsed.
func (r *Receiver) deliverTerminate(b []byte) {
	t, _ := verbs.ParseTerminate(b)
	r.ev.Kind, r.ev.Term = EvTerminate, &verbs.TerminateError{Terminate: cloned(t)}
}

func (r *Receiver) count(op verbs.Opcode, ev *ddp.Event) {
	r.In.FPDUs++
	if ev.Delivered {
		r.In.message(op, 1)
	}
	switch op {
	case verbs.OpWrite:
		r.In.WriteOctets += uint64(ev.Placed)
	case verbs.OpReadResponse:
		r.In.ReadOctets += uint64(ev.Placed)
		r.readGot += uint64(ev.Placed)
	default:
	}
}

// Close gives back what the receiver holds.
func (r *Receiver) Close() {
	r.view.Release()
	r.pool.Ended(&r.Arriving)
	r.pool.Put(r.buf)
	r.pool.Leave(&r.Claim)
	r.pool.Forget(r.Backlog.Len())
	r.buf, r.scratch, r.Backlog = nil, nil, backlog{}
}

// repeats reports whether u is a Send like the one before it and needs only a receive: both are whole
// in their segments, are delivered where they lie, and differ only in MSN and payload, so that what was
// checked for the first holds for this one. Anything else, and every error, is for input. So are
// messages after those that are put off, and messages that are kept, because they need memory of
// their own, although the Send before may have had none, if it was an RTR.
func (r *Receiver) repeats(u []byte) bool {
	return (r.now == verbs.OpSend || r.now == verbs.OpSendSE) && r.ddp.Repeats(u) && r.Backlog.Len() == 0 &&
		!r.keep && len(u)-ddp.UntaggedLen <= r.size && r.Recvs.Load() > 0
}

// repeat is input for a Send for which repeats holds. It delivers the payload in m: to fill in an event
// and read it again at once would take longer than everything else.
func (r *Receiver) repeat(payload []byte, m *verbs.Message) {
	r.Recvs.Add(-1)
	r.ddp.Repeat(len(payload))
	r.In.FPDUs++
	r.In.message(r.now, 1)
	m.Op, m.Data, m.Invalidated, m.Solicited = r.now, payload, 0, r.now.Solicited()
}

// continueRun places the segments in b that continue the tagged message whose segment has just been placed.
// They differ only in TO, so what is looked up for the first holds for all. It stops before the last
// segment of the message, before one of another length, before anything else and before every error:
// those are for input. It returns how many octets of b it has used.
func (r *Receiver) continueRun(df *mpa.Deframer, b []byte) (used int) {
	head, n := r.continuation(df, b)
	if head == nil || r.Backlog.Len() > 0 {
		return 0
	}
	view, left := r.sinkOf(head, n) // once for the run: the pin keeps the STag valid meanwhile
	defer view.Release()
	front, to := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	size, fpdus := mpa.FPDULen(ddp.TaggedLen+n), 0
	for left -= n; left >= 0; left -= n {
		if df.CRC { // else there is nothing left to look at
			if _, _, err := df.Next(b[used:]); err != nil {
				break
			}
		}
		copy(view.Bytes(), b[used+fpduHead:])
		view.Filled(n)
		r.ddp.Continue(n)
		used += size
		fpdus++
		to += uint64(n)
		// Length, flags, opcode and STag are the first 8 octets of an FPDU, the TO is the next.
		if next := b[used:]; len(next) < size || binary.BigEndian.Uint64(next) != front ||
			binary.BigEndian.Uint64(next[8:]) != to || !view.Forward(n) {
			break
		}
	}
	r.followed(fpdus, fpdus*n)
	return used
}

// continuation returns the header of the FPDU at the start of b, and the length of its payload, if the
// FPDU is complete and continues the open message; otherwise nil.
func (r *Receiver) continuation(df *mpa.Deframer, b []byte) (head []byte, payload int) {
	u, n, ok := df.Peek(b)
	if !ok || mpa.FPDULen(n) > len(b) || !r.ddp.Continues(u) {
		return nil, 0
	}
	return u[:ddp.TaggedLen], n - ddp.TaggedLen
}

// sinkOf returns the place of the n octets of the segment with this header, and how many octets may be
// placed beginning there. If that is less than n, the segment has to be handled like any other.
func (r *Receiver) sinkOf(head []byte, n int) (v region.View, left int) {
	var s ddp.Segment
	s.Parse(head)
	need, left := region.RemoteWrite, math.MaxInt32 // more than is ever staged
	if r.now == verbs.OpReadResponse {
		rd, _ := r.up.head()
		off := s.TO - rd.sinkTO
		if region.STag(s.STag) != rd.sink || off > uint64(rd.size) {
			return v, -1
		}
		need, left = region.ReadSink, int(min(uint64(rd.size)-off, math.MaxInt32))
	}
	v, err := r.table.Lookup(region.STag(s.STag), s.TO, uint32(n), need)
	if err != nil || v.Guarded() {
		return v, -1
	}
	return v, left
}

// followed counts segments that were placed without input.
func (r *Receiver) followed(fpdus, octets int) {
	r.In.FPDUs += uint64(fpdus)
	if r.now == verbs.OpReadResponse {
		r.In.ReadOctets += uint64(octets)
		r.readGot += uint64(octets)
		return
	}
	r.In.WriteOctets += uint64(octets)
}
