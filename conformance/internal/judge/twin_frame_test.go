package judge_test

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
)

// End says how a frame that carries nothing ends a stream.
type End uint8

// The ways to end.
const (
	NoEnd End = iota
	FIN
	RST
)

// Frame is one frame of a conversation, or the end of one of its streams. The zero values of the fields
// after Payload leave the frame as the documents want it.
type Frame struct {
	Dir     decode.Dir
	Startup *Startup    // a startup frame
	End     End         // an end
	Lost    int         // octets of the stream that are not in the capture
	Raw     []byte      // octets that are sent as they are, in place of all fields below
	Seg     ddp.Segment // the header; its DV is sent as it is
	Payload []byte

	Reserved byte                // or-ed into the first octet of the DDP header
	ULPDU    func([]byte) []byte // changes the ULPDU
	Edit     func([]byte)        // changes the FPDU, markers included, before its CRC is made
	BadCRC   bool
	Cut      int // octets at the end that are not sent

	Later time.Duration // how much later than the frame before it is sent, besides a millisecond
}

// Startup is an MPA startup frame. [mpa.Frame] with what the codec would not send.
type Startup struct {
	mpa.Frame
	Key      string // in place of that of Reply
	Reply    bool
	PDLength int  // in place of the true one; 0: the true one
	Flags    byte // or-ed into the flags
}

func (f *Frame) isSegment() bool {
	return f.Startup == nil && f.End == NoEnd && f.Raw == nil && f.Lost == 0
}

// octets renders a startup frame.
func (s *Startup) octets() []byte {
	key := s.Key
	if key == "" {
		key = mpa.RequestKey
		if s.Reply {
			key = mpa.ReplyKey
		}
	}
	flags := s.Flags | s.Frame.Reserved
	for _, bit := range []struct {
		on   bool
		mask byte
	}{{s.Markers, 0x80}, {s.CRC, 0x40}, {s.Rejected, 0x20}, {s.Enhanced, 0x10}} {
		if bit.on {
			flags |= bit.mask
		}
	}
	var private []byte
	if s.Enhanced && s.Rev >= 2 {
		private = s.Word.Append(nil)
	}
	private = append(private, s.PrivateData...)
	n := len(private)
	if s.PDLength != 0 {
		n = s.PDLength
	}
	b := append([]byte(key), flags, s.Rev)
	b = binary.BigEndian.AppendUint16(b, uint16(n))
	return append(b, private...)
}

// renderer turns the frames of one conversation into octets.
type renderer struct {
	crc     bool
	markers [2]*mpa.Inserter
}

// newRenderer takes from the startup frames what they settle.
func newRenderer(t *Trace) *renderer {
	r := new(renderer)
	for _, f := range t.Frames {
		if f.Startup == nil {
			continue
		}
		r.crc = r.crc || f.Startup.CRC
		if f.Startup.Markers {
			r.markers[1-f.Dir] = new(mpa.Inserter)
		}
	}
	return r
}

// octets returns the octets of a frame on the wire.
func (r *renderer) octets(f *Frame) []byte {
	var b []byte
	switch {
	case f.Raw != nil:
		b = slices.Clone(f.Raw)
	case f.Startup != nil:
		b = f.Startup.octets()
	case f.End != NoEnd || f.Lost > 0:
		return nil
	default:
		b = r.fpdu(f)
	}
	return b[:len(b)-min(f.Cut, len(b))]
}

func (r *renderer) fpdu(f *Frame) []byte {
	u := f.Seg.Append(nil)
	u[0] = u[0]&^3 | f.Seg.DV&3 | f.Reserved
	u = append(u, f.Payload...)
	if f.ULPDU != nil {
		u = f.ULPDU(u)
	}
	var b []byte
	if m := r.markers[f.Dir]; m != nil {
		b = m.AppendFPDU(nil, u, false)
	} else {
		b = mpa.AppendFPDU(nil, u, false)
	}
	if f.Edit != nil {
		f.Edit(b)
	}
	if r.crc {
		crc := mpa.UpdateCRC(0, b[:len(b)-mpa.CRCLen])
		if f.BadCRC {
			crc ^= 1
		}
		b = mpa.AppendCRC(b[:len(b)-mpa.CRCLen], crc)
	}
	return b
}
