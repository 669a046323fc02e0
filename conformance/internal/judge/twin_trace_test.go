package judge_test

import (
	"slices"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// Conversations of iWARP connections are built frame by frame, so that a test can change one thing in a good one, with
// lengths, CRCs and markers computed again, and see which rule the judge reports as broken:
//
//	t := New().Startup()
//	t.Send(I, []byte("hello"))
//	t.Write(R, 0x1234, 0, data)
//	t.Close()
//	t.Nth(verbs.OpSend, 0).Seg.MSN = 7 // the mutation
//	t.Play(judge.Event)
//
// The builder numbers messages as they are added, and does not renumber them after a change; see Trace.Renumber.

// The sides of a conversation: the initiator opens the TCP connection.
const (
	I = decode.FromOpener
	R = decode.FromAccepter
)

// Trace is a conversation: its frames in the order in which they were captured.
type Trace struct {
	Frames []*Frame

	// Segment is the largest payload that the next messages put into one segment, in octets; 0: all of it.
	Segment int

	// Middle: the capture begins in the middle of the connection.
	Middle bool

	msn [2][4]uint32 // of the last message of each queue
}

// New returns an empty conversation.
func New() *Trace { return new(Trace) }

// add appends frames and returns the last one.
func (t *Trace) add(f ...*Frame) *Frame {
	t.Frames = append(t.Frames, f...)
	return f[len(f)-1]
}

// Untagged adds a message of an untagged opcode on its queue, with the next MSN there. It returns the
// frame of its last segment.
func (t *Trace) Untagged(dir decode.Dir, op verbs.Opcode, payload []byte) *Frame {
	q := op.Queue()
	t.msn[dir][q]++
	return t.segments(dir, ddp.Segment{DV: ddp.Version, Control: control(op), QN: q, MSN: t.msn[dir][q]}, payload)
}

// Tagged adds a message of a tagged opcode. It returns the frame of its last segment.
func (t *Trace) Tagged(dir decode.Dir, op verbs.Opcode, stag ddp.STag, to uint64, payload []byte) *Frame {
	return t.segments(dir, ddp.Segment{Tagged: true, DV: ddp.Version, Control: control(op), STag: stag, TO: to}, payload)
}

// control returns the RDMAP control octet of an opcode.
func control(op verbs.Opcode) uint8 { return 0x40 | uint8(op) }

// segments adds the frames of one message.
func (t *Trace) segments(dir decode.Dir, s ddp.Segment, payload []byte) *Frame {
	limit := t.Segment
	if limit <= 0 {
		limit = len(payload)
	}
	for {
		n := min(limit, len(payload))
		f := &Frame{Dir: dir, Seg: s, Payload: slices.Clone(payload[:n])}
		f.Seg.Last = n == len(payload)
		t.add(f)
		if f.Seg.Last {
			return f
		}
		payload = payload[n:]
		if s.Tagged {
			s.TO += uint64(n)
		} else {
			s.MO += uint32(n)
		}
	}
}

// FIN ends the stream of one direction.
func (t *Trace) FIN(dir decode.Dir) *Frame { return t.add(&Frame{Dir: dir, End: FIN}) }

// Close ends both streams, the initiator's first.
func (t *Trace) Close() *Trace {
	t.FIN(I)
	t.FIN(R)
	return t
}

// Nth returns the n-th frame, from 0, that is a segment of a message of opcode op; nil if there are not so
// many.
func (t *Trace) Nth(op verbs.Opcode, n int) *Frame {
	for _, f := range t.Frames {
		if f.isSegment() && f.Seg.Control&0x1f == uint8(op) {
			if n--; n < 0 {
				return f
			}
		}
	}
	return nil
}

// Drop removes frames.
func (t *Trace) Drop(frames ...*Frame) {
	t.Frames = slices.DeleteFunc(t.Frames, func(f *Frame) bool { return slices.Contains(frames, f) })
}

// Before inserts frames before at.
func (t *Trace) Before(at *Frame, frames ...*Frame) {
	t.Frames = slices.Insert(t.Frames, slices.Index(t.Frames, at), frames...)
}

// After inserts frames after at.
func (t *Trace) After(at *Frame, frames ...*Frame) {
	t.Frames = slices.Insert(t.Frames, slices.Index(t.Frames, at)+1, frames...)
}

// Swap exchanges two frames.
func (t *Trace) Swap(a, b *Frame) {
	i, j := slices.Index(t.Frames, a), slices.Index(t.Frames, b)
	t.Frames[i], t.Frames[j] = b, a
}

// Renumber gives the untagged messages of all queues the MSNs 1, 2, … in the order of their first segments,
// after frames were added, dropped or moved.
func (t *Trace) Renumber() {
	var last [2][4]uint32
	for _, f := range t.Frames {
		if !f.isSegment() || f.Seg.Tagged || f.Seg.QN > 3 {
			continue
		}
		if f.Seg.MO == 0 {
			last[f.Dir][f.Seg.QN]++
		}
		f.Seg.MSN = last[f.Dir][f.Seg.QN]
	}
}
