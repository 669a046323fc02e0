package decode

import (
	"encoding/binary"
	"slices"

	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rpcrdma"
)

// Startup is an MPA startup frame (RFC 5044 Section 7.1.1, RFC 6581 Section 6). If it is malformed, the
// fields hold what could be read.
type Startup struct {
	mpa.Frame

	IsReply  bool
	Flags    byte // M 0x80, C 0x40, R 0x20, S 0x10, reserved 0x0f, as on the wire
	PDLength int  // PD_Length as on the wire

	// CM is the RPC-over-RDMA private data (RFC 8797 Section 4), nil if there is none.
	CM *rpcrdma.PrivateData
	// Stag is the capability block of a stag engine, nil if there is none.
	Stag *StagCapability

	At Stamp // the packet that completed it
}

// clone returns a copy that shares no octets with s.
func (s *Startup) clone() *Startup {
	c := *s
	c.PrivateData = slices.Clone(s.PrivateData)
	return &c
}

// startupLen looks at the first octets of a stream. key reports whether the octets that are there match a
// startup key; n is the length of the frame, 0 while it is unknown.
func startupLen(b []byte) (key bool, n int) {
	m := min(len(b), len(mpa.RequestKey))
	if string(b[:m]) != mpa.RequestKey[:m] && string(b[:m]) != mpa.ReplyKey[:m] {
		return false, 0
	}
	if len(b) < mpa.StartupHeaderLen {
		return true, 0
	}
	return true, mpa.StartupHeaderLen + pdLength(b)
}

// pdLength returns PD_Length of the frame in b, which holds its header.
func pdLength(b []byte) int { return int(binary.BigEndian.Uint16(b[18:])) }

// parseStartup decodes a whole frame with a right key. The error is the codec's; even then the fields that
// could be read are filled in.
func parseStartup(b []byte) (*Startup, error) {
	s := &Startup{IsReply: string(b[:len(mpa.ReplyKey)]) == mpa.ReplyKey, Flags: b[16], PDLength: pdLength(b)}
	var err error
	if s.IsReply {
		var r mpa.Reply
		r, _, err = mpa.ParseReply(b)
		s.Frame = r.Frame
	} else {
		var r mpa.Request
		r, _, err = mpa.ParseRequest(b)
		s.Frame = r.Frame
	}
	if cm, ok := rpcrdma.ParsePrivateData(s.PrivateData); ok {
		s.CM = &cm
	}
	s.Stag = parseCapability(s.PrivateData)
	return s, err
}
