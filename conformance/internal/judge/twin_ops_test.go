package judge_test

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// Startup adds an enhanced startup with CRCs and read depths of 8 both ways.
func (t *Trace) Startup() *Trace {
	f := usualFrame()
	f.PrivateData = []byte("stag\x01\x0c\xff\xff\x00\x00\x00\x0e") // all extensions, see decode.StagCapability
	t.Request(f)
	t.Reply(f)
	return t
}

func usualFrame() mpa.Frame {
	return mpa.Frame{Rev: 2, CRC: true, Enhanced: true, Word: mpa.Enhanced{IRD: 8, ORD: 8}}
}

// Request adds the initiator's startup frame.
func (t *Trace) Request(f mpa.Frame) *Frame {
	return t.add(&Frame{Dir: I, Startup: &Startup{Frame: f}})
}

// Reply adds the responder's.
func (t *Trace) Reply(f mpa.Frame) *Frame {
	return t.add(&Frame{Dir: R, Startup: &Startup{Frame: f, Reply: true}})
}

// Send adds a Send.
func (t *Trace) Send(dir decode.Dir, payload []byte) *Frame {
	return t.Untagged(dir, verbs.OpSend, payload)
}

// SendInvalidate adds a Send with Invalidate.
func (t *Trace) SendInvalidate(dir decode.Dir, stag ddp.STag, payload []byte) *Frame {
	from := len(t.Frames)
	f := t.Untagged(dir, verbs.OpSendInvalidate, payload)
	for _, s := range t.Frames[from:] {
		s.Seg.ULP = uint32(stag)
	}
	return f
}

// Write adds an RDMA Write.
func (t *Trace) Write(dir decode.Dir, stag ddp.STag, to uint64, payload []byte) *Frame {
	return t.Tagged(dir, verbs.OpWrite, stag, to, payload)
}

// ReadRequest adds an RDMA Read Request.
func (t *Trace) ReadRequest(dir decode.Dir, r decode.ReadRequest) *Frame {
	return t.Untagged(dir, verbs.OpReadRequest, ReadHeader(r))
}

// ReadHeader returns the header of a Read Request.
func ReadHeader(r decode.ReadRequest) []byte {
	be := binary.BigEndian
	b := be.AppendUint32(nil, uint32(r.SinkSTag))
	b = be.AppendUint64(b, r.SinkTO)
	b = be.AppendUint32(b, r.Size)
	b = be.AppendUint32(b, uint32(r.SourceSTag))
	return be.AppendUint64(b, r.SourceTO)
}

// ReadResponse adds the RDMA Read Response to r, sent in direction dir.
func (t *Trace) ReadResponse(dir decode.Dir, r decode.ReadRequest) *Frame {
	return t.Tagged(dir, verbs.OpReadResponse, r.SinkSTag, r.SinkTO, make([]byte, r.Size))
}

// Read adds a Read Request and its Response, which goes the other way. It returns the
// frame of the Request.
func (t *Trace) Read(dir decode.Dir, r decode.ReadRequest) *Frame {
	f := t.ReadRequest(dir, r)
	t.ReadResponse(1-dir, r)
	return f
}

// Atomic adds an Atomic Request of RFC 7306.
func (t *Trace) Atomic(dir decode.Dir, op verbs.AtomicOp, id uint32, stag ddp.STag, to uint64) *Frame {
	be := binary.BigEndian
	b := be.AppendUint32(nil, uint32(op))
	b = be.AppendUint32(b, id)
	b = be.AppendUint32(b, uint32(stag))
	b = be.AppendUint64(b, to)
	b = be.AppendUint64(b, 1) // operand
	b = be.AppendUint64(b, 0) // its mask
	if op == verbs.AtomicCmpSwap {
		b = be.AppendUint64(b, 5)
		b = be.AppendUint64(b, 0xff)
	} else {
		b = be.AppendUint64(b, 0)
		b = be.AppendUint64(b, ^uint64(0))
	}
	return t.Untagged(dir, verbs.OpAtomicRequest, b)
}

// AtomicResponse adds the answer to the Atomic Request with the given ID.
func (t *Trace) AtomicResponse(dir decode.Dir, id uint32) *Frame {
	b := binary.BigEndian.AppendUint32(nil, id)
	return t.Untagged(dir, verbs.OpAtomicResponse, append(b, make([]byte, 8)...))
}

// target is the head of the requests of the commit draft.
func target(stag ddp.STag, n uint32, to uint64) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(stag))
	b = binary.BigEndian.AppendUint32(b, n)
	return binary.BigEndian.AppendUint64(b, to)
}

// Flush adds a Flush Request for persistence.
func (t *Trace) Flush(dir decode.Dir, stag ddp.STag, n uint32, to uint64) *Frame {
	return t.Untagged(dir, verbs.OpFlushRequest, append(target(stag, n, to), 0, 0, 0, 1))
}

// FlushResponse adds the answer to a Flush.
func (t *Trace) FlushResponse(dir decode.Dir) *Frame {
	return t.Untagged(dir, verbs.OpFlushResponse, nil)
}

// Verify adds a Verify Request; hash is the hash expected, or empty.
func (t *Trace) Verify(dir decode.Dir, stag ddp.STag, n uint32, to uint64, hash []byte) *Frame {
	return t.Untagged(dir, verbs.OpVerifyRequest, append(target(stag, n, to), hash...))
}

// VerifyResponse adds the answer to a Verify.
func (t *Trace) VerifyResponse(dir decode.Dir, hash []byte) *Frame {
	return t.Untagged(dir, verbs.OpVerifyResponse, hash)
}

// AtomicWrite adds an Atomic Write Request.
func (t *Trace) AtomicWrite(dir decode.Dir, stag ddp.STag, to uint64, word uint64) *Frame {
	return t.Untagged(dir, verbs.OpAtomicWriteRequest, binary.BigEndian.AppendUint64(target(stag, 8, to), word))
}

// AtomicWriteResponse adds its answer.
func (t *Trace) AtomicWriteResponse(dir decode.Dir) *Frame {
	return t.Untagged(dir, verbs.OpAtomicWriteResponse, nil)
}

// Immediate adds Immediate Data.
func (t *Trace) Immediate(dir decode.Dir, data uint64) *Frame {
	return t.Untagged(dir, verbs.OpImmediate, binary.BigEndian.AppendUint64(nil, data))
}

// Terminate adds a Terminate.
func (t *Trace) Terminate(dir decode.Dir, m *verbs.Terminate) *Frame {
	return t.Untagged(dir, verbs.OpTerminate, m.Append(nil))
}
