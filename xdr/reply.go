package xdr

import "encoding/binary"

// ReplyHeader is a reply message up to its results (RFC 5531 Section 9).
//
//	octets  field
//	4       xid
//	4       mtype, 1
//	4       reply_stat: 0 accepted, 1 denied
//
//	accepted                            denied
//	8+      verf, opaque_auth           4       reject_stat
//	4       accept_stat                 8       low, high (RPC_MISMATCH)
//	8       low, high (PROG_MISMATCH)   4       auth_stat (AUTH_ERROR)
//
// 24 octets for SUCCESS with an empty verifier. A decoded verifier's body is a
// view of the input. The zero value with an XID is a SUCCESS reply.
type ReplyHeader struct {
	XID       uint32     // of the call
	Denied    bool       // reply_stat
	Verf      Auth       // accepted: the server's verifier
	Accept    AcceptStat // accepted: the outcome
	Low, High uint32     // PROG_MISMATCH and RPC_MISMATCH: versions served
	Reject    RejectStat // denied: why
	AuthStat  AuthStat   // denied, AUTH_ERROR: why
}

// AppendReply appends the header of a reply to b; the results follow it if it
// says SUCCESS. It borrows h and copies the verifier. Fields that the outcome
// does not have on the wire are not written.
func AppendReply(b []byte, h *ReplyHeader) []byte {
	b = appendWords(b, h.XID, MsgReply)
	if h.Denied {
		b = appendWords(b, 1, uint32(h.Reject))
		if h.Reject == RPCMismatch {
			return appendWords(b, h.Low, h.High)
		}
		return AppendUint32(b, uint32(h.AuthStat))
	}
	b = h.Verf.Append(AppendUint32(b, 0))
	b = AppendUint32(b, uint32(h.Accept))
	if h.Accept == ProgMismatch {
		b = appendWords(b, h.Low, h.High)
	}
	return b
}

// Size returns the octets that AppendReply adds.
func (h *ReplyHeader) Size() int {
	switch {
	case h.Denied && h.Reject == RPCMismatch:
		return 24
	case h.Denied:
		return 20
	case h.Accept == ProgMismatch:
		return 24 + h.Verf.Size()
	}
	return 16 + h.Verf.Size()
}

// Parse reads the header from d and leaves the cursor at the results. It
// overwrites all of h. An mtype other than MsgReply, a value of reply_stat,
// accept_stat, reject_stat or auth_stat that RFC 5531 does not have, and a
// verifier above MaxAuthBody are ErrRange; the *[DecodeError] names the field.
func (h *ReplyHeader) Parse(d *Decoder) error {
	*h = ReplyHeader{}
	if w := d.b; len(w) >= 24 && binary.BigEndian.Uint64(w[4:]) == MsgReply<<32 && binary.BigEndian.Uint64(w[16:]) == 0 {
		h.XID, h.Verf.Flavor = binary.BigEndian.Uint32(w), AuthFlavor(binary.BigEndian.Uint32(w[12:]))
		d.b = w[24:] // accepted, SUCCESS and an empty verifier, as nearly all are
		return nil
	}
	h.XID = d.Uint32()
	if d.Uint32() != MsgReply {
		d.failBack("mtype", ErrRange)
	}
	switch d.Uint32() {
	case 0:
		h.parseAccepted(d)
	case 1:
		h.Denied = true
		h.parseDenied(d)
	default:
		d.failBack("reply_stat", ErrRange)
	}
	return d.ErrIn("reply header")
}

func (h *ReplyHeader) parseAccepted(d *Decoder) {
	d.name("reply header")
	h.Verf.Parse(d)
	d.name("verf")
	h.Accept = AcceptStat(d.Uint32())
	if h.Accept > SystemErr {
		d.failBack("accept_stat", ErrRange)
	}
	if h.Accept == ProgMismatch {
		h.Low, h.High = d.Uint32(), d.Uint32()
	}
}

func (h *ReplyHeader) parseDenied(d *Decoder) {
	h.Reject = RejectStat(d.Uint32())
	switch h.Reject {
	case RPCMismatch:
		h.Low, h.High = d.Uint32(), d.Uint32()
	case AuthError:
		h.AuthStat = AuthStat(d.Uint32())
		if h.AuthStat > GSSCtxProblem {
			d.failBack("auth_stat", ErrRange)
		}
	default:
		d.failBack("reject_stat", ErrRange)
	}
}

// Err returns nil when the reply is accepted with SUCCESS, else a
// *[RPCStatusError].
func (h *ReplyHeader) Err() error {
	if !h.Denied && h.Accept == Success {
		return nil
	}
	return &RPCStatusError{
		Denied: h.Denied, Accept: h.Accept, Low: h.Low, High: h.High,
		Reject: h.Reject, AuthStat: h.AuthStat,
	}
}
