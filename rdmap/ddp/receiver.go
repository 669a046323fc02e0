package ddp

import "encoding/binary"

// Queue is the sink's side of one untagged queue: the buffers posted to it, RFC 5041
// Section 4.3. The Receiver calls it from its own goroutine.
type Queue interface {
	// Posted returns how many messages may still begin: buffers posted and not opened
	// yet. It bounds the window of legal MSNs.
	Posted() int
	// Size returns the size in octets of the buffer that Open will use.
	Size() int
	// Open takes the next posted buffer for the message that s begins. A buffer of at
	// least Size octets becomes the message's memory until its delivery. When s.Last
	// is set the message is whole in this segment and buf may be nil: it is then
	// delivered where it lies, without a copy. ok == false stalls: nothing was taken.
	Open(s *Segment) (buf []byte, ok bool)
}

// Sinks finds the memory that tagged segments name.
type Sinks interface {
	// Sink checks that n > 0 octets at s.TO of s.STag may be placed by the operation
	// s.Control names, in the order existence, association, right, wrap, bounds, and
	// returns exactly those octets, pinned. Any violation other than OK ends the
	// stream; dst is then ignored.
	Sink(s *Segment, n int) (dst []byte, v Violation)
	// Placed ends the pin of the last Sink; the octets are there.
	Placed(s *Segment)
}

// Config says what a Receiver works on.
type Config struct {
	// Queues by number; nil: the stream has no such queue (queue 3 of a stream
	// without extensions).
	Queues [NumQueues]Queue
	// Sinks finds tagged memory; nil: no STag is valid.
	Sinks Sinks
	// OpcodeMask selects the bits of Control that must be the same in all segments of
	// a message; 0 stands for 0x0f, the opcode of RFC 5040 Section 4.1.
	OpcodeMask uint8
}

// Event is what placing one segment amounts to.
type Event struct {
	// Delivered: the segment was the last of its message, which is now delivered.
	Delivered bool
	// Tagged: which of the two kinds.
	Tagged bool
	// Placed is the number of payload octets of this segment.
	Placed int
	// Length is the number of octets of the message so far: all of it when
	// Delivered. DDP cannot know where a tagged message was meant to begin.
	Length uint64
	// Data is the delivered untagged message: the buffer of Queue.Open cut to Length,
	// or, when Open gave none, the payload as it was handed to Place. Lends until the
	// caller reuses that memory.
	Data []byte
}

// message is an open message: its first segments are placed, the last is not.
type message struct {
	open    bool
	control uint8
	stag    STag   // tagged
	qn, msn uint32 // untagged
	buf     []byte // untagged
	placed  uint64
}

// Receiver is the data sink's machine for one stream, RFC 5041 Section 5 and 7. It is
// used by one goroutine at a time. For each ULPDU, in order: Header, then Place; or,
// to read a payload straight into its place, Header, Reserve, Commit.
type Receiver struct {
	cfg              Config
	tagged, untagged message
	next             [NumQueues]uint32 // MSN of the next message to begin

	seg     Segment
	size    int // of the ULPDU
	phase   phase
	payload int // octets of the segment
	pinned  bool
	whole   bool // seg was an untagged message of its own, delivered where it lay

	err error
}

type phase uint8

const (
	// phaseIdle: waiting for Header.
	phaseIdle phase = iota
	// phaseHeader: checks 1 to 3 passed; the caller checks the RDMAP fields.
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

// Header parses the header of a ULPDU of size octets and checks its version and
// queue. b is the ULPDU or a prefix of it that holds the header; it is borrowed. The
// segment stays valid until the next call of Header. The caller then does RDMAP's own
// checks of version and opcode, before the rest of DDP's (RFC 5040 Section 7.2).
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

// Reserve checks the segment of the last Header against the open messages, its
// queue or its STag, and returns where its payload belongs: exactly as many octets
// as it has, nil for a payload that is delivered where it lies (see Queue) or is
// empty. After filling dst the caller calls Commit. Errors: *Error, final; ErrStalled;
// ErrState.
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

// Commit says that the octets of the last Reserve are in place, or, if it returned
// no memory, that payload holds them. It never fails after a successful Reserve, and
// returns an empty Event otherwise.
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

// Place does all that is left after Header: the remaining checks, the copy, the
// delivery. payload is the ULPDU without its header; it is borrowed, unless the Event
// lends it.
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

// Continues reports whether u, a ULPDU or a prefix of it that holds the header and one
// octet more, is a segment that carries on the open tagged message, without being its
// last: the header of the segment before, with its TO advanced by that one's payload,
// which was not empty. It would pass all checks but that of Sinks. Continues changes
// nothing.
func (r *Receiver) Continues(u []byte) bool {
	s := &r.seg
	return r.tagged.open && s.Tagged && r.payload > 0 && len(u) > TaggedLen &&
		r.phase == phaseIdle && r.err == nil &&
		u[0] == flagTagged|Version && u[1] == s.Control &&
		STag(binary.BigEndian.Uint32(u[2:])) == s.STag &&
		binary.BigEndian.Uint64(u[6:]) == s.TO+uint64(r.payload)
}

// Continue says that the n octets of a segment for which Continues holds are in place. It
// stands for Header, Reserve and Commit of a caller that knows the sink, since it has
// looked up more of it than one segment.
func (r *Receiver) Continue(n int) {
	r.seg.TO += uint64(r.payload)
	r.payload, r.size = n, TaggedLen+n
	r.tagged.placed += uint64(n)
}

// Repeats reports whether u is a segment like the one before it, which was an untagged
// message of its own that was delivered where it lay: the same header but for the MSN,
// which is the next one. It would pass all checks but those of its Queue, which has to
// have a message posted, and of a size. Repeats changes nothing.
func (r *Receiver) Repeats(u []byte) bool {
	s := &r.seg
	return len(u) >= UntaggedLen && u[0] == flagLast|Version && r.whole && r.phase == phaseIdle && r.err == nil &&
		u[1] == s.Control &&
		binary.BigEndian.Uint32(u[2:]) == s.ULP &&
		binary.BigEndian.Uint32(u[6:]) == s.QN &&
		binary.BigEndian.Uint32(u[10:]) == r.next[s.QN] &&
		binary.BigEndian.Uint32(u[14:]) == 0
}

// Repeat says that such a segment, with n octets of payload, has been delivered where it
// lies. It stands for Header, Reserve and Commit of a caller that has asked the Queue, and
// has taken what was posted there.
func (r *Receiver) Repeat(n int) {
	r.seg.MSN = r.next[r.seg.QN]
	r.next[r.seg.QN]++
	r.payload, r.size = n, UntaggedLen+n
}

// Fail ends the inbound direction from outside, for instance after a bad CRC behind
// a Reserve: pins are released and every later call returns err, unless an error came
// before.
func (r *Receiver) Fail(err error) {
	r.unpin()
	r.phase = phaseIdle
	if r.err == nil {
		r.err = err
	}
}

// Err returns the error that ended the inbound direction, or nil.
func (r *Receiver) Err() error { return r.err }

// Open reports which messages are open, that is, begun and not delivered: at the end
// of a stream they are the ones that were cut off.
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

// refuse is fail for a segment whose header is whole.
func (r *Receiver) refuse(v Violation, got, want uint64) error {
	return r.fail(&Error{Violation: v, Got: got, Want: want, HasHeader: true})
}

func (r *Receiver) sameOpcode(m *message) bool {
	return (m.control^r.seg.Control)&r.cfg.OpcodeMask == 0
}
