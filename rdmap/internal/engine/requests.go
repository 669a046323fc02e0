package engine

import (
	"encoding/binary"
	"sync"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// inFlight is what the receiving half knows of the sending half: the requests in flight in both directions. lock is that
// under which work requests are posted.
type inFlight struct {
	lock sync.Locker
	snd  *Sender
}

// freeSlots returns how many more requests the peer may send now.
func (q inFlight) freeSlots() int {
	q.lock.Lock()
	defer q.lock.Unlock()
	return q.snd.freeSlots()
}

// enqueue takes a request of the peer. It reports false if there is no slot.
func (q inFlight) enqueue(req *request) bool {
	q.lock.Lock()
	defer q.lock.Unlock()
	return q.snd.State().Ended() || q.snd.hold(req) // after the end, nothing is answered any more
}

// head returns the oldest request of ours in flight.
func (q inFlight) head() (outRead, bool) {
	q.lock.Lock()
	defer q.lock.Unlock()
	return q.snd.readHead()
}

// behind returns the octets of the Read after that one, 0 if there is none.
func (q inFlight) behind() uint32 {
	q.lock.Lock()
	defer q.lock.Unlock()
	if q.snd.inFlight.Len() < 2 { // Responses come in the order of the requests
		return 0
	}
	return q.snd.inFlight.At(1).size
}

// expected returns how many responses are due on queue 3.
func (q inFlight) expected() int {
	q.lock.Lock()
	defer q.lock.Unlock()
	return q.snd.expected
}

// answered ends the oldest request of ours, and appends the completions that are due to out.
func (q inFlight) answered(out []Completion) []Completion {
	q.lock.Lock()
	defer q.lock.Unlock()
	return q.snd.readDone(out)
}

// release lets a responder send.
func (q inFlight) release() {
	q.lock.Lock()
	defer q.lock.Unlock()
	q.snd.release()
}

// maxRequest is the largest payload of a queue 1 message: a Verify Request with
// the longest hash.
const maxRequest = 16 + maxHash

// maxHash is the longest hash of a Verify, octets.
const maxHash = 64

// immediateLen is the length of Immediate Data, octets (RFC 7306 Section 6).
const immediateLen = 8

// request is a message of queue 1, which is held in one of the IRD slots until its response has been
// handed down (RFC 5040 Section 6.1). Its header is kept for a Terminate.
type request struct {
	Op     verbs.Opcode
	swap   bool // the Swap of draft-ietf-storm-rdmap-ext-01 is permitted
	hdr    [ddp.UntaggedLen]byte
	Body   [maxRequest]byte
	slow   bool   // a Verify that reads a medium
	n      uint8  // of body
	segLen uint16 // ULPDU length of its (last) segment
}

// readHeaderLen is the length of the RDMAP header of a Read Request, octets.
const readHeaderLen = 28

// readRequest is the RDMAP header of a Read Request (RFC 5040 Section 4.4),
// big-endian:
//
//	off 0 sink STag, 4 sink TO (8 octets), 12 size, 16 source STag, 20 source TO (8)
type readRequest struct {
	Sink   region.STag
	SinkTO uint64
	Size   uint32
	Src    region.STag
	SrcTO  uint64
}

// append appends the 28 octets of r to b.
func (r *readRequest) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(r.Sink))
	b = binary.BigEndian.AppendUint64(b, r.SinkTO)
	b = binary.BigEndian.AppendUint32(b, r.Size)
	b = binary.BigEndian.AppendUint32(b, uint32(r.Src))
	return binary.BigEndian.AppendUint64(b, r.SrcTO)
}

// parse reads the first 28 octets of b.
func (r *readRequest) parse(b []byte) {
	_ = b[readHeaderLen-1]
	r.Sink = region.STag(binary.BigEndian.Uint32(b))
	r.SinkTO = binary.BigEndian.Uint64(b[4:])
	r.Size = binary.BigEndian.Uint32(b[12:])
	r.Src = region.STag(binary.BigEndian.Uint32(b[16:]))
	r.SrcTO = binary.BigEndian.Uint64(b[20:])
}

// outRead is a request of ours whose response is due: the requester's side of RFC
// 5040 Section 4.4 and RFC 7306 Section 5.
type outRead struct {
	op     verbs.Opcode  // of the request
	id     uint32        // OpAtomicRequest: its identifier
	answer *verbs.Answer // if not a Read: the place for the answer, may be nil
	want   *wantedHash   // OpVerifyRequest: what the peer compares with; nil: nothing
	// OpReadRequest:
	sink       region.STag
	sinkTO     uint64
	size       uint32
	invalidate bool            // invalidate sink before the completion
	done       verbs.Completer // for cancel only
	// cancelled: nobody wants the octets any more. The response is still due, is
	// checked, and is dropped.
	cancelled bool
}

// Completion is a Completer that is due, and the error to call it with. Completers are called with
// no lock held.
type Completion struct {
	Done verbs.Completer
	Err  error
}

// Fire calls the Completers of due, and empties it.
func Fire(due []Completion) {
	for i, c := range due {
		due[i] = Completion{}
		c.Done.Complete(c.Err)
	}
}

// completions keeps the order of RFC 5040 Section 5.5: work requests complete in the order of their
// submission, so one posted after a Read waits for that Read. An entry is made when a work request
// is taken to be written. It completes when it has been written and, if it is a request, its
// response has arrived. The response may be noticed first.
type completions struct {
	q       buf.Ring[pendingCompletion]
	written int // entries at the front that have been written
	err     error
}

type pendingCompletion struct {
	done     verbs.Completer // may be nil
	read     bool            // it gets an answer
	answered bool
}

// taken makes an entry for it, if it needs one.
func (o *completions) taken(it *message) {
	if o.wants(it) {
		o.q.Push(pendingCompletion{
			done: it.done,
			read: Asks(it.op),
		})
	}
}

// wrote says that it, the oldest work request not yet known to be written, has been written.
func (o *completions) wrote(it *message, out []Completion) []Completion {
	if !o.wants(it) {
		return out
	}
	o.written++
	return o.flush(out)
}

func (o *completions) wants(it *message) bool {
	return it.done != nil || Asks(it.op)
}

// answer says that the response to the oldest unanswered request is complete.
func (o *completions) answer(out []Completion) []Completion {
	for i := range o.q.Len() { // the answered ones before it wait to be known as written
		if p := o.q.At(i); p.read && !p.answered {
			p.answered = true
			break
		}
	}
	return o.flush(out)
}

// flush appends what is due to out.
func (o *completions) flush(out []Completion) []Completion {
	for o.written > 0 {
		if p := o.q.At(0); p.read && !p.answered && o.err == nil {
			break // and so does everything posted after it
		}
		o.written--
		if p := o.q.Pop(); p.done != nil {
			out = append(out, Completion{p.done, o.err})
		}
	}
	o.q.Trim() // an idle connection keeps no memory of a burst
	return out
}

// abort completes with err what has been written, and makes everything that follows complete with
// err too. What is being written is still being read from, so it completes afterwards.
func (o *completions) abort(out []Completion, err error) []Completion {
	o.err = err
	return o.flush(out)
}
