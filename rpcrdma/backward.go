package rpcrdma

import "encoding/binary"

// backwardDataSize is the size of the block of [BackwardData], octets.
const backwardDataSize = 8

const (
	backwardMagic   = 0x62776431 // "bwd1"
	backwardVersion = 1
)

// BackwardData is the block that the end that opens a connection appends to [PrivateData] in its
// private data, if it accepts calls in the backward direction:
//
//	octets  field
//	4       0x62776431
//	1       version, 1
//	1       0, ignored
//	2       Credits, 1 to 65535
//
// Choice: RFC 8167 Section 5.3 leaves this announcement to the upper layer, "otherwise, even a
// simple backward-direction RPC NULL Call from a peer could result in a lost connection". Peers
// that do not know the block ignore it.
type BackwardData struct {
	Credits uint16 // backward calls taken at once
}

// Append appends the 8 octets.
func (d BackwardData) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, backwardMagic)
	b = append(b, backwardVersion, 0)
	return binary.BigEndian.AppendUint16(b, d.Credits)
}

// ParseBackwardData finds the block just after the [PrivateData] at the start of b. It reports
// false if there is no block, or if the block has another version or no credits. It borrows b.
func ParseBackwardData(b []byte) (BackwardData, bool) {
	if len(b) < PrivateDataSize+backwardDataSize || binary.BigEndian.Uint32(b) != privateMagic {
		return BackwardData{}, false
	}
	b = b[PrivateDataSize:]
	d := BackwardData{Credits: binary.BigEndian.Uint16(b[6:])}
	if binary.BigEndian.Uint32(b) != backwardMagic || b[4] != backwardVersion || d.Credits == 0 {
		return BackwardData{}, false
	}
	return d, true
}

// planInline is Plan for a direction without chunks.
func (r *Requester) planInline(c *Call) error {
	if MinHeaderSize+c.Message.Len() > r.cfg.SendSize {
		return ErrInline
	}
	return nil
}

// chunked reports whether a call offers memory, or is nowhere but in such memory.
func (h *Header) chunked() bool {
	return h.Type == MsgTypeNoMsg || len(h.Read) > 0 || len(h.Write) > 0 || h.HasReply
}

// grantInError is the grant of an RDMA_ERROR.
func (r *Responder) grantInError(asked uint32) uint32 {
	if r.cfg.Bidirectional {
		return r.credits.GrantUnheard(asked)
	}
	return r.credits.Grant(asked)
}
