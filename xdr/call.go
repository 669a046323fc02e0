package xdr

import "encoding/binary"

// CallHeader is a call message up to its arguments (RFC 5531 Section 9).
//
//	octets  field
//	4       xid
//	4       mtype, 0
//	4       rpcvers, 2
//	4       prog
//	4       vers
//	4       proc
//	8+      cred, opaque_auth
//	8+      verf, opaque_auth
//
// 40 octets when both auths are empty. Decoded bodies are views of the input.
type CallHeader struct {
	XID     uint32 // pairs the reply with the call
	RPCVers uint32 // RPCVersion in a legal call; written as it stands
	Prog    uint32 // program, for example 100003 for NFS
	Vers    uint32 // version of the program
	Proc    uint32 // procedure; 0 is the null procedure of every program
	Cred    Auth   // who calls
	Verf    Auth   // proof of Cred; AUTH_NONE with AUTH_NONE and AUTH_SYS
}

// AppendCall appends the header of a call to b; the arguments follow it. It
// borrows h and copies both bodies. RPCVers is written as it stands.
func AppendCall(b []byte, h *CallHeader) []byte {
	b = appendWords(b, h.XID, MsgCall)
	b = appendWords(b, h.RPCVers, h.Prog)
	b = appendWords(b, h.Vers, h.Proc)
	return h.Verf.Append(h.Cred.Append(b))
}

// Size returns the octets that AppendCall adds.
func (h *CallHeader) Size() int { return 24 + h.Cred.Size() + h.Verf.Size() }

// Parse reads the header from d and leaves the cursor at the arguments. It
// overwrites all of h.
//
// An mtype other than MsgCall, and a body above MaxAuthBody, are ErrRange; the
// *[DecodeError] has Field "mtype", "cred" or "verf". An RPCVers other than
// RPCVersion is not an error: parsing ends after that word, since the form of
// the rest is unknown, and [CallHeader.Refusal] knows the answer.
//
// On error XID is set if the first word was there.
func (h *CallHeader) Parse(d *Decoder) error {
	*h = CallHeader{}
	if w := d.b; len(w) >= 24 && binary.BigEndian.Uint64(w[4:]) == MsgCall<<32|RPCVersion { // as nearly all begin
		h.XID, h.RPCVers = binary.BigEndian.Uint32(w), RPCVersion
		h.Prog, h.Vers, h.Proc = binary.BigEndian.Uint32(w[12:]), binary.BigEndian.Uint32(w[16:]), binary.BigEndian.Uint32(w[20:])
		d.b = w[24:]
	} else if h.parseWords(d); d.err != nil || h.RPCVers != RPCVersion {
		return d.ErrIn("call header")
	}
	h.Cred.Parse(d)
	d.name("cred")
	h.Verf.Parse(d)
	return d.ErrIn("verf")
}

// parseWords is Parse up to the credential, for a header with something wrong: it finds the
// word.
func (h *CallHeader) parseWords(d *Decoder) {
	h.XID = d.Uint32()
	if d.Uint32() != MsgCall {
		d.failBack("mtype", ErrRange)
	}
	if h.RPCVers = d.Uint32(); h.RPCVers == RPCVersion {
		h.Prog, h.Vers, h.Proc = d.Uint32(), d.Uint32(), d.Uint32()
	}
}

// PeekXID returns the first two words of an RPC message, its xid and mtype
// (MsgCall, MsgReply, or a value of no meaning). ok is false when b is shorter
// than 8 octets. It borrows b.
func PeekXID(b []byte) (xid, msgType uint32, ok bool) {
	if len(b) < 8 {
		return 0, 0, false
	}
	return binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:]), true
}
