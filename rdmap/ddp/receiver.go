package ddp

import "encoding/binary"

// Queue is the sink's side of one untagged queue: the buffers posted to it (RFC 5041 Section 4.3).
// The goroutine that uses the Receiver calls its methods.
type Queue interface {
	// Posted returns how many messages may still begin: the buffers that are posted and not yet
	// opened. It bounds the window of legal MSNs.
	Posted() int
	// Size returns the size in octets of the buffer that Open will use.
	Size() int
	// Open takes the next posted buffer for the message that s begins. buf has at least Size octets
	// and is lent to the Receiver until it delivers the message. If s.Last is set, this segment
	// holds the whole message, and buf may be nil: the message is then delivered where it lies,
	// without a copy. ok == false means that nothing was taken, and Reserve returns ErrStalled.
	Open(s *Segment) (buf []byte, ok bool)
}

// Sinks finds the memory that tagged segments name.
type Sinks interface {
	// Sink checks that the operation that s.Control names may place n > 0 octets at s.TO of s.STag,
	// in the order existence, association, right, wrap, bounds. It returns exactly those octets,
	// pinned and lent until Placed. Any violation other than OK ends the stream; dst is then
	// ignored.
	Sink(s *Segment, n int) (dst []byte, v Violation)
	// Placed ends the pin of the last Sink: the octets are in place, or the segment was given up.
	Placed(s *Segment)
}

// Config holds the queues and the memory of a Receiver.
type Config struct {
	// Queues by number; nil: the stream has no such queue (queue 3 of a stream
	// without extensions).
	Queues [NumQueues]Queue
	// Sinks finds tagged memory; nil: no STag is valid.
	Sinks Sinks
	// OpcodeMask selects the bits of Control that must be the same in all segments of
	// a message; 0 means 0x0f, the opcode of RFC 5040 Section 4.1.
	OpcodeMask uint8
}

// Event is the result of placing one segment.
type Event struct {
	// Delivered: the segment was the last of its message, which is now delivered.
	Delivered bool
	// Tagged reports which of the two kinds the segment is.
	Tagged bool
	// Placed is the number of payload octets of this segment.
	Placed int
	// Length is the number of octets of the message so far; if Delivered, that is the whole
	// message. DDP cannot know where a tagged message was meant to begin.
	Length uint64
	// Data is the delivered untagged message: the buffer of Queue.Open cut to Length, or, if Open
	// gave none, the payload that was passed to Place or Commit. It is lent until the caller reuses
	// that memory.
	Data []byte
}

// message is an open message: some of its segments are placed, the last one is not.
type message struct {
	open    bool
	control uint8
	stag    STag   // tagged
	qn, msn uint32 // untagged
	buf     []byte // untagged
	placed  uint64
}

// Receiver is the data sink's machine for one stream (RFC 5041 Sections 5 and 7). It is used by one
// goroutine at a time. For each ULPDU, in order, call Header and Place, or, to read a payload
// straight into its place, Header, Reserve and Commit.
type Receiver struct {
	cfg              Config
	tagged, untagged message
	next             [NumQueues]uint32 // MSN of the next message to begin

	seg     Segment
	size    int // of the ULPDU
	phase   phase
	payload int // octets of the segment
	pinned  bool
	whole   bool              // seg was a whole untagged message, delivered where it lay
	repeat  [UntaggedLen]byte // whole: the header of another such message, see Repeats

	err error
}

type phase uint8

const (
	// phaseIdle: waiting for Header.
	phaseIdle phase = iota
	// phaseHeader: the header has passed; the caller checks the RDMAP fields.
	phaseHeader
	// phaseReserved: all checks passed; octets are being placed.
	phaseReserved
)

// NewReceiver returns a Receiver that expects MSN 1 on every queue.
func NewReceiver(cfg Config) *Receiver {
	if cfg.OpcodeMask == 0 {
		cfg.OpcodeMask = 0x0f
	}
	r := &Receiver{cfg: cfg}
	for i := range r.next {
		r.next[i] = FirstMSN
	}
	return r
}

// Header parses the header of a ULPDU of size octets and checks its version and queue. b is the
// ULPDU or a prefix of it that holds the header; it is borrowed. The segment is valid until the
// next call of Header. The caller then makes RDMAP's own checks of version and opcode, which come
// before DDP's other checks (RFC 5040 Section 7.2). The error is an *Error and final.
func (r *Receiver) Header(b []byte, size int) (*Segment, error) {
	if r.err != nil {
		return nil, r.err
	}
	r.unpin()
	r.phase, r.size, r.whole = phaseIdle, size, false
	if !r.seg.Parse(b[:min(size, len(b))]) {
		return nil, r.fail(&Error{Violation: LocalCatastrophic, Got: uint64(size), Want: uint64(r.seg.HeaderLen())})
	}
	if v := r.checkHeader(); v != nil {
		return nil, r.fail(v)
	}
	r.payload = size - r.seg.HeaderLen()
	r.phase = phaseHeader
	return &r.seg, nil
}

func (r *Receiver) checkHeader() *Error {
	s := &r.seg
	if s.DV != Version {
		v := UntaggedVersion
		if s.Tagged {
			v = TaggedVersion
		}
		return &Error{Violation: v, Got: uint64(s.DV), Want: Version, HasHeader: true}
	}
	if !s.Tagged && (s.QN >= NumQueues || r.cfg.Queues[s.QN] == nil) {
		return &Error{Violation: InvalidQN, Got: uint64(s.QN), HasHeader: true}
	}
	return nil
}

// Reserve checks the segment of the last Header against the open messages and against its queue or
// its STag, and returns the place of its payload: exactly as many octets as the payload has, or
// nil if the payload is empty or is delivered where it lies (see Queue). The caller fills dst, and
// calls Commit. Errors: *Error, final; ErrStalled; ErrState.
func (r *Receiver) Reserve() (dst []byte, err error) {
	if r.err != nil {
		return nil, r.err
	}
	if r.phase != phaseHeader {
		return nil, ErrState
	}
	if r.seg.Tagged {
		dst, err = r.reserveTagged()
	} else {
		dst, err = r.reserveUntagged()
	}
	if err == nil {
		r.phase = phaseReserved
	}
	return dst, err
}

// Commit tells the Receiver that the octets of the last Reserve are in place, or, if Reserve
// returned no memory, that payload holds them; the Event may lend payload. Without a successful
// Reserve before it, it returns an empty Event.
func (r *Receiver) Commit(payload []byte) Event {
	if r.phase != phaseReserved {
		return Event{}
	}
	r.phase = phaseIdle
	r.unpin()
	if r.seg.Tagged {
		return r.commitTagged()
	}
	return r.commitUntagged(payload)
}

// Place does everything after Header: the remaining checks, the copy, the delivery. payload is the
// ULPDU without its header; it is borrowed, unless the Event lends it. Errors are those of Reserve.
func (r *Receiver) Place(payload []byte) (Event, error) {
	if r.err == nil && r.phase == phaseHeader && len(payload) != r.payload {
		return Event{}, ErrState
	}
	dst, err := r.Reserve()
	if err != nil {
		return Event{}, err
	}
	copy(dst, payload)
	return r.Commit(payload), nil
}

// Continues reports whether u, a ULPDU or a prefix of it that holds the header and one octet more,
// is a segment that continues the open tagged message and is not its last. Its header is then that
// of the segment before it, whose payload was not empty, with TO advanced by that payload. Such a
// segment would pass all checks but those of Sinks. Continues changes nothing.
func (r *Receiver) Continues(u []byte) bool {
	s := &r.seg
	return r.tagged.open && s.Tagged && r.payload > 0 && len(u) > TaggedLen &&
		r.phase == phaseIdle && r.err == nil &&
		u[0] == flagTagged|Version && u[1] == s.Control &&
		STag(binary.BigEndian.Uint32(u[2:])) == s.STag &&
		binary.BigEndian.Uint64(u[6:]) == s.TO+uint64(r.payload)
}

// Continue tells the Receiver that the n octets of a segment for which Continues holds are in
// place. It replaces Header, Reserve and Commit for a caller that knows the sink already, because
// it has looked up more of it than one segment needs.
func (r *Receiver) Continue(n int) {
	r.seg.TO += uint64(r.payload)
	r.payload, r.size = n, TaggedLen+n
	r.tagged.placed += uint64(n)
}

// Repeats reports whether u is a segment like the one before it, which was a whole untagged message
// and was delivered where it lay: the header is the same but for the MSN, which is the next one.
// Such a segment would pass all checks but those of its Queue: a buffer must be posted and large
// enough. Repeats changes nothing.
func (r *Receiver) Repeats(u []byte) bool {
	like, ne := &r.repeat, binary.NativeEndian
	return r.whole && len(u) >= UntaggedLen && // by words: compilers call a function for 18 octets
		ne.Uint64(u) == ne.Uint64(like[:]) && ne.Uint64(u[8:]) == ne.Uint64(like[8:]) && ne.Uint16(u[16:]) == ne.Uint16(like[16:])
}

// Repeat tells the Receiver that a segment for which Repeats holds, with n octets of payload, has
// been delivered where it lies. It replaces Header, Reserve and Commit for a caller that has asked
// the Queue and taken a buffer there.
func (r *Receiver) Repeat(n int) {
	r.seg.MSN = r.next[r.seg.QN]
	r.next[r.seg.QN]++
	binary.BigEndian.PutUint32(r.repeat[10:], r.next[r.seg.QN])
	r.payload, r.size = n, UntaggedLen+n
}

// Fail ends the inbound direction from outside, for instance when the CRC turns out to be wrong
// after a Reserve. Pins are released, and every later call returns err, unless an earlier error
// ended the direction.
func (r *Receiver) Fail(err error) {
	r.unpin()
	r.phase, r.whole = phaseIdle, false
	if r.err == nil {
		r.err = err
	}
}

// Err returns the error that ended the inbound direction, or nil.
func (r *Receiver) Err() error { return r.err }

// Open reports which kinds of messages are open, that is, begun and not delivered. At the end of a
// stream these are the ones that were cut off.
func (r *Receiver) Open() (tagged, untagged bool) { return r.tagged.open, r.untagged.open }

func (r *Receiver) unpin() {
	if r.pinned {
		r.pinned = false
		r.cfg.Sinks.Placed(&r.seg)
	}
}

// fail completes e and makes it final.
func (r *Receiver) fail(e *Error) error {
	e.Layer, e.EType, e.Code = e.Violation.Code()
	if e.HasHeader {
		e.Segment = r.seg
	}
	e.SegmentLen = r.size
	r.phase, r.err = phaseIdle, e
	return e
}

// refuse is fail for a segment whose header is complete.
func (r *Receiver) refuse(v Violation, got, want uint64) error {
	return r.fail(&Error{Violation: v, Got: got, Want: want, HasHeader: true})
}

func (r *Receiver) sameOpcode(m *message) bool {
	return (m.control^r.seg.Control)&r.cfg.OpcodeMask == 0
}
