package judge

import (
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// Error codes of MPA in a Terminate.
const (
	mpaClosed  = uint8(mpa.CodeClosed)
	mpaStartup = uint8(mpa.CodeStartup)
	mpaLocal   = uint8(mpa.CodeLocal) // and above: errors of the enhanced setup
)

// contradiction says why the side that sends in direction dir cannot have seen the error that its Terminate
// names. It returns "" if the side can have seen it, or if the trace does not show. header is the DDP header
// that the Terminate quotes, or nil.
func (m *terminates) contradiction(dir decode.Dir, code verbs.TermCode, header []byte) string {
	peer := 1 - dir
	switch {
	case m.late:
		return ""
	case code.Layer == verbs.LayerMPA && code.Code >= mpaLocal:
		if dir != m.info.Initiator || m.fpdus[dir] > 0 {
			return "only the initiator reports this, in its first FPDU"
		}
		return ""
	case code.Layer == verbs.LayerMPA && (code.Code == mpaClosed || code.Code == mpaStartup):
		return "" // RDMAP-061
	case code.Layer == verbs.LayerMPA && !m.badCRC[peer] && !m.badMkr[peer] && !m.doubt[peer]:
		return "all CRCs and markers of the peer are right"
	case code.Layer == verbs.LayerMPA || m.doubt[peer]:
		return ""
	}
	if code.EType == 0 {
		return "" // an error of the side's own
	}
	if m.fpdus[peer] == 0 {
		return "the peer has sent no FPDU"
	}
	if header == nil {
		return ""
	}
	s := segment(header)
	if why := m.sequence(peer, code, &s); why != "" {
		return why
	}
	if code.Layer == verbs.LayerDDP {
		return ddpClaim(code, &s)
	}
	return rdmapClaim(code, &s)
}

// sequence judges errors that are about earlier segments: a peer whose messages all follow each
// other has made none of them.
func (m *terminates) sequence(peer decode.Dir, code verbs.TermCode, s *ddp.Segment) string {
	const untaggedError = 2
	if m.outOfOrder[peer] {
		return ""
	}
	if code.Layer == verbs.LayerRDMAP && code.EType == 2 && code.Code == 0x06 && (s.Tagged && verbs.Opcode(s.Control&0x0f) == verbs.OpWrite ||
		!s.Tagged && s.QN == ddp.QNSend && verbs.Opcode(s.Control&0x0f).IsSend()) {
		return "the opcode quoted is one that every stream has"
	}
	if code.Layer != verbs.LayerDDP || code.EType != untaggedError {
		return ""
	}
	switch code.Code {
	case 0x03:
		return "all MSNs of the peer are right"
	case 0x04:
		return "all MOs of the peer are right"
	}
	return ""
}

// ddpClaim judges the errors of DDP by the header that is said to have caused them.
func ddpClaim(code verbs.TermCode, s *ddp.Segment) string {
	const taggedError, untaggedError = 1, 2
	switch {
	case code.EType == taggedError && !s.Tagged, code.EType == untaggedError && s.Tagged:
		return "the header quoted is of the other kind"
	case code.EType == taggedError && code.Code == 0x04, code.EType == untaggedError && code.Code == 0x06:
		if s.DV == ddp.Version {
			return "the version quoted is 1"
		}
	case code.EType == taggedError && code.Code == 0x03 && s.TO <= 1<<63:
		return "the TO quoted is far from 2^64"
	case code.EType == untaggedError && code.Code == 0x01 && s.QN < queueResponses:
		return "the queue quoted is one that every stream has"
	}
	return ""
}

// rdmapClaim judges the errors of RDMAP.
func rdmapClaim(code verbs.TermCode, s *ddp.Segment) string {
	const protection, operation = 1, 2
	op := verbs.Opcode(s.Control & 0x0f)
	switch {
	case code.EType == operation && code.Code == 0x05 && s.Control>>6 == 1:
		return "the version quoted is 1"
	case code.Code == 0x09 && !op.Invalidates():
		return "the message quoted invalidates nothing"
	case code.EType == protection && code.Code < 0x09 && (s.Tagged || op.IsSend() && s.QN == ddp.QNSend):
		return "the message quoted reads no memory"
	}
	return ""
}
