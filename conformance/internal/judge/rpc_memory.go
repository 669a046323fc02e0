package judge

import (
	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap/ddp"
)

// write judges a segment of an RDMA Write.
func (m *rpcMachine) write(ev *decode.Event) {
	n := len(ev.DDP.Payload)
	if n == 0 {
		return // its STag and TO mean nothing (RFC 5040 Section 5.4)
	}
	if mem := m.touch(ev, ev.DDP.STag, ev.DDP.TO, n, false); mem != nil {
		mem.moved.add(ev.DDP.TO-mem.Offset, ev.DDP.TO-mem.Offset+uint64(n))
	}
}

// readRequest judges a Read Request and keeps it for its Responses.
func (m *rpcMachine) readRequest(ev *decode.Event) {
	r := readInProgress{ReadRequest: *ev.Message.Read}
	if r.Size > 0 {
		r.mem = m.touch(ev, r.SourceSTag, r.SourceTO, int(r.Size), true)
	}
	q := &m.sides[1-ev.Dir].reads
	if len(*q) >= maxPulls {
		*q = (*q)[1:]
	}
	*q = append(*q, r)
}

// readResponse records what was read. The side that sends it owns the memory; Responses come in the order of
// the Requests (RFC 5040 Section 5.5).
func (m *rpcMachine) readResponse(ev *decode.Event) {
	m.rpcOf(ev) // this completes the call
	q := &m.sides[ev.Dir].reads
	if len(*q) == 0 {
		return
	}
	r := (*q)[0]
	if ev.DDP.Last {
		*q = (*q)[1:]
	}
	n, off := uint64(len(ev.DDP.Payload)), ev.DDP.TO-r.SinkTO
	if r.mem == nil || off > uint64(r.Size) || n > uint64(r.Size)-off {
		return
	}
	at := r.SourceTO - r.mem.Offset + off
	r.mem.moved.add(at, at+n)
}

// unwritten returns the violation of the reply that came before an RDMA Write of this segment, nil if there was none.
func (m *rpcMachine) unwritten(ev *decode.Event) *Violation {
	for _, mem := range m.sides[1-ev.Dir].mem[chunks.Handle(ev.DDP.STag)] {
		if ev.DDP.Tagged && mem.call.unwritten != nil && mem.holds(ev.DDP.TO, len(ev.DDP.Payload)) {
			return mem.call.unwritten
		}
	}
	return nil
}

// touch judges access to n octets of the peer's memory, and returns the memory, nil if it is not in a chunk
// of a call that waits.
func (m *rpcMachine) touch(ev *decode.Event, tag ddp.STag, to uint64, n int, reading bool) *memory {
	side := &m.sides[1-ev.Dir]
	var late, wrong *memory
	for _, mem := range side.mem[chunks.Handle(tag)] {
		switch {
		case !mem.holds(to, n):
		case (mem.use == forRead) != reading:
			wrong = mem
		case side.waits(mem.call):
			return mem
		default:
			late = mem
		}
	}
	if m.found > 0 {
		return nil // a lower layer has reported it
	}
	if m.blind() || side.forgot {
		m.strange = true // the call may not be in the capture
		return nil
	}
	what, rule := "RDMA Write", "RPCRDMA-050"
	if reading {
		what, rule = "Read Request", "RPCRDMA-051"
	}
	switch {
	case wrong != nil:
		m.violate("RPCRDMA-054", "%s of %d octets at %v %#x, which the call in frame %d offers for the opposite", what, n, tag, to, wrong.call.frame)
	case late != nil:
		m.violateAfter(late.call.unwritten, ev.Dir, "RPCRDMA-052", "%s of %d octets at %v %#x, a chunk of the call in frame %d, which was answered before", what, n, tag, to, late.call.frame)
	default:
		m.violate(rule, "%s of %d octets at %v %#x, which no waiting call offers", what, n, tag, to)
	}
	return nil
}

// offersSTag reports whether the call offers memory under tag.
func (c *rpcCall) offersSTag(tag ddp.STag) bool { return c.offers(chunks.Handle(tag)) }
