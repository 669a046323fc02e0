package rdmap

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/mutant"
)

// putOff keeps the ULPDUs of queues 0 and 1 that arrive while queue 0 waits for memory, so that
// messages that free memory (Read Responses, responses on queue 3) are still handled. Requests wait
// too, since a Read Response is not generated before an earlier Send has completed (RFC 5040 Section
// 5.5). Each ULPDU is preceded by its length.
type putOff struct {
	b    []byte
	stop bool // the Pool keeps no more
}

// maxPutOff is how many octets a connection keeps before its whole stream waits. All connections of a
// Pool together keep at most that much or the limit of the Pool, whichever is larger, and the first
// ULPDU of each.
const maxPutOff = 128 << 10

func (o *putOff) len() int { return len(o.b) }

// full reports whether one more ULPDU might not fit.
func (o *putOff) full() bool { return o.stop || len(o.b) > maxPutOff-2-0xffff }

// waits reports whether u has to wait for its turn after what is put off.
func (o *putOff) waits(u []byte) bool {
	if len(u) < ddp.UntaggedLen || u[0]&0x80 != 0 {
		return mutant.WritesWait
	}
	if mutant.RequestsPassMessages {
		return binary.BigEndian.Uint32(u[6:]) == ddp.QNSend
	}
	return binary.BigEndian.Uint32(u[6:]) <= ddp.QNRequest
}

// next returns the first ULPDU.
func (o *putOff) next() []byte {
	n := int(binary.BigEndian.Uint16(o.b))
	return o.b[2 : 2+n]
}

// pop drops the first ULPDU, and returns its room to p.
func (o *putOff) pop(p *buf.Pool) {
	n := 2 + len(o.next())
	p.Forget(n)
	o.stop = false
	o.b = o.b[n:]
	if len(o.b) == 0 {
		o.b = nil
	}
}

// putOff keeps u for later.
func (r *receiver) putOff(u []byte) *event {
	r.ev.kind = evBlocked
	if r.off.full() {
		return &r.ev
	}
	first := r.off.len() == 0
	if !r.pool.Keep(2+len(u), maxPutOff, first) {
		r.off.stop = true
		return &r.ev
	}
	r.off.b = binary.BigEndian.AppendUint16(r.off.b, uint16(len(u)))
	r.off.b = append(r.off.b, u...)
	r.ev.kind = evNone
	if first {
		r.ev.kind = evStalled
	}
	return &r.ev
}

// replay handles the first ULPDU that was put off. ok is false if there is still no memory for it.
func (r *receiver) replay() (ev *event, ok bool, err error) {
	kept := r.off
	r.off = putOff{} // a stall now must not append to what is being replayed
	if ev, err = r.accept(kept.next()); err != nil {
		return nil, true, err
	}
	if r.off.len() > 0 { // put off again
		r.pool.Forget(r.off.len())
		r.off = kept
		return nil, false, nil
	}
	// The message lies in the octets that were put off, which are not overwritten.
	kept.pop(r.pool)
	r.off = kept
	return ev, true, nil
}

// noMemory returns the error for a connection that has waited too long: "no buffer" (RFC 5041
// Section 7.1).
func (r *receiver) noMemory() error {
	u := r.off.next()
	err := &ddp.Error{Violation: ddp.NoBuffer, HasHeader: true, SegmentLen: len(u)}
	err.Layer, err.EType, err.Code = err.Violation.Code()
	err.Segment.Parse(u)
	return protocolError(err, u)
}

// waitMemory makes the Pool grant memory for the first ULPDU.
func (r *receiver) waitMemory() { r.pool.Wait(&r.claim) }

// holdsSend reports whether the Send with that number holds memory and is not complete.
func (r *receiver) holdsSend(began uint64) bool { return r.pool.Holds(&r.arriving, began) }
