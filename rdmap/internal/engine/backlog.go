package engine

import (
	"encoding/binary"
	"time"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
)

// backlog keeps the ULPDUs of queues 0 and 1 that arrive while queue 0 waits for memory, so that
// messages that free memory (Read Responses, responses on queue 3) are still handled. Requests wait
// too, since a Read Response is not generated before an earlier Send has completed (RFC 5040 Section
// 5.5). Each ULPDU is preceded by its length.
type backlog struct {
	b    []byte
	stop bool // the Pool keeps no more
}

// maxBacklog is how many octets a connection keeps before its whole stream waits. All connections of a
// Pool together keep at most that much or the limit of the Pool, whichever is larger, and the first
// ULPDU of each.
const maxBacklog = 128 << 10

// Len returns how many octets are kept.
func (o *backlog) Len() int { return len(o.b) }

// Full reports whether one more ULPDU might not fit.
func (o *backlog) Full() bool { return o.stop || len(o.b) > maxBacklog-2-0xffff }

// waits reports whether u has to wait for its turn after what is put off.
func (o *backlog) waits(u []byte) bool {
	if len(u) < ddp.UntaggedLen || u[0]&0x80 != 0 {
		return false
	}
	return binary.BigEndian.Uint32(u[6:]) <= ddp.QNRequest
}

// next returns the first ULPDU.
func (o *backlog) next() []byte {
	n := int(binary.BigEndian.Uint16(o.b))
	return o.b[2 : 2+n]
}

// pop drops the first ULPDU, and returns its room to p.
func (o *backlog) pop(p *buf.Pool) {
	n := 2 + len(o.next())
	p.Forget(n)
	o.stop = false
	o.b = o.b[n:]
	if len(o.b) == 0 {
		o.b = nil
	}
}

// putOff keeps u for later.
func (r *Receiver) putOff(u []byte) *Event {
	r.ev.Kind = EvBlocked
	if r.Backlog.Full() {
		return &r.ev // the ULPDU stays in the staging, and the stream waits
	}
	first := r.Backlog.Len() == 0
	if !r.pool.Keep(2+len(u), maxBacklog, first) {
		r.Backlog.stop = true
		return &r.ev
	}
	r.Backlog.b = binary.BigEndian.AppendUint16(r.Backlog.b, uint16(len(u)))
	r.Backlog.b = append(r.Backlog.b, u...)
	r.ev.Kind = EvNone
	if first {
		r.ev.Kind = EvStalled
	}
	return &r.ev
}

// Replay handles the first ULPDU that was put off. EvStalled: there is no memory for it, and its wait begins. EvBlocked:
// it still waits. A wait that has taken too long ends the connection: "no buffer" (RFC 5041 Section 7.1).
func (r *Receiver) Replay(now time.Time) (*Event, error) {
	kept := r.Backlog
	r.Backlog = backlog{} // a stall now must not append to what is being replayed
	ev, err := r.accept(kept.next())
	if err != nil {
		return nil, err
	}
	if r.Backlog.Len() == 0 {
		// The message lies in the octets that were put off, which are not overwritten.
		kept.pop(r.pool)
		r.Backlog = kept
		r.Wait.end()
		return ev, nil
	}
	r.pool.Forget(r.Backlog.Len()) // put off again: it was counted twice
	r.Backlog = kept
	switch {
	case !r.Wait.waits(): // those before it had memory
		ev.Kind = EvStalled
	case r.Wait.over(now):
		return nil, r.noMemory()
	default:
		r.WaitMemory()
		ev.Kind = EvBlocked
	}
	return ev, nil
}

func (r *Receiver) noMemory() error {
	u := r.Backlog.next()
	err := &ddp.Error{Violation: ddp.NoBuffer, HasHeader: true, SegmentLen: len(u)}
	err.Layer, err.EType, err.Code = err.Violation.Code()
	err.Segment.Parse(u)
	return protocolError(err, u)
}

// WaitMemory makes the Pool grant memory for the first ULPDU.
func (r *Receiver) WaitMemory() { r.pool.Wait(&r.Claim) }

// HoldsSend reports whether the Send with that number holds memory and is not complete.
func (r *Receiver) HoldsSend(began uint64) bool { return r.pool.Holds(&r.Arriving, began) }
