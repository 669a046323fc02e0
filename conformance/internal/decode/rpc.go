package decode

import (
	"fmt"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// RPC is an ONC RPC message (RFC 5531 Section 9), or what its chunks added to it.
type RPC struct {
	XID     uint32
	IsReply bool
	// Backward: of the backward direction (RFC 8167): a call of the MPA responder, or the reply to one. See
	// [ConnInfo.Initiator] for captures that do not show which side that is.
	Backward bool

	// Program, version and procedure of the call; all zero for a reply whose call was not seen.
	Prog, Vers, Proc uint32
	// Name is "NFSv3 READ", "MOUNTv3 MNT", "NFSv4 COMPOUND", or numbers if there is no name; "" while it is
	// unknown.
	Name string

	Call      *xdr.CallHeader  // of a call; nil while it is unknown
	Reply     *xdr.ReplyHeader // of a reply
	CallFrame int              // of a reply: packet that completed the call; 0 if it was not seen

	// Status is the name of the status with which the results begin, as in "NFS3_OK"; "" if there is none.
	Status     string
	StatusCode uint32

	// Body holds the arguments or results: whole and unreduced if Whole is set, else what came inline. The
	// padding of an RDMA_MSGP is removed as far as it was found.
	Body  []byte
	Whole bool
	// Message is the decoded Body of a whole NFSv3 or MOUNTv3 message; else nil.
	Message nfs3.Message
	// CCP is the decoded Body of a CONF_RDMA (RFC 5666 Section 6).
	CCP *CCP
	// Compound has the operations of NFSv4, and of its callbacks.
	Compound *Compound

	// Pulled: the event does not bring a new message, but the last octets of the Read chunks of the call
	// with this XID, which is whole now. A long call (RDMA_NOMSG) is first seen this way.
	Pulled bool
	// Again: an earlier event had the call header already.
	Again bool

	// GSS is what RPCSEC_GSS makes of the call, or of that to which this is the reply (RFC 2203 Section 5.3.1): "none",
	// "integrity", "privacy", a control message "init", "continue" or "destroy", or "unknown"; without it "". The body of all
	// but "none" is not decoded.
	GSS string

	// Err is what is wrong with the message.
	Err error

	head      int  // octets of the message before Body
	protected bool // by RPCSEC_GSS: the body must not be decoded
	msgp      bool // came in an RDMA_MSGP
	pads      bool // padding of an RDMA_MSGP may be left in Body
}

// name fills in what the numbers mean.
func (r *RPC) name(prog, vers, proc uint32) {
	r.Prog, r.Vers, r.Proc = prog, vers, proc
	r.Name = fmt.Sprintf("%sv%d %s", programName(prog), vers, procName(prog, vers, proc))
}

// parseCall reads a call message, as much of it as msg holds.
func (r *RPC) parseCall(msg []byte) {
	d := xdr.NewDecoder(msg)
	h := new(xdr.CallHeader)
	if r.Err = h.Parse(&d); r.Err != nil || h.RPCVers != xdr.RPCVersion {
		r.XID = h.XID
		return
	}
	r.head = d.Offset()
	r.XID, r.Call, r.Body, r.protected = h.XID, h, d.Rest(), h.Cred.Protected()
	r.GSS = gssOf(&h.Cred)
	r.name(h.Prog, h.Vers, h.Proc)
}

// parseReply reads a reply message, as much of it as msg holds.
func (r *RPC) parseReply(msg []byte) {
	d := xdr.NewDecoder(msg)
	h := new(xdr.ReplyHeader)
	if r.Err = h.Parse(&d); r.Err != nil {
		r.XID = h.XID
		return
	}
	r.XID, r.Reply, r.Body = h.XID, h, d.Rest()
}

// answers joins a reply with its call.
func (r *RPC) answers(c *call) {
	r.CallFrame, r.protected, r.GSS = c.frame, c.protected, c.gss
	if c.known {
		r.name(c.header.Prog, c.header.Vers, c.header.Proc)
	}
}

// gssOf returns the GSS of a call with a credential.
func gssOf(a *xdr.Auth) string {
	if a.Flavor != xdr.RPCSECGSS {
		return ""
	}
	d := xdr.NewDecoder(a.Body)
	_, proc, _, service := d.Uint32(), d.Uint32(), d.Uint32(), d.Uint32()
	switch {
	case d.Err() != nil:
	case proc >= 1 && proc <= 3:
		return [...]string{"init", "continue", "destroy"}[proc-1]
	case proc == 0 && service >= 1 && service <= 3:
		return [...]string{"none", "integrity", "privacy"}[service-1]
	}
	return "unknown"
}

// success reports whether the reply carries results.
func (r *RPC) success() bool {
	return r.Reply != nil && !r.Reply.Denied && r.Reply.Accept == xdr.Success
}

// decodeBody decodes arguments or results, and demands that nothing is left. h is the header with which they
// came, nil if Body is whole without it.
func (r *RPC) decodeBody(h *rpcrdma.Header) {
	if r.IsReply && !r.success() || r.Name == "" || r.protected {
		return
	}
	if r.IsReply {
		r.StatusCode, r.Status = status(r.Prog, r.Vers, r.Proc, r.Body)
	}
	switch {
	case r.isCompound():
		r.compound(h)
		return
	case r.Prog == progCCP && r.Vers == 1 && r.Proc == 1 && r.Whole && r.Err == nil:
		r.ccp()
		return
	}
	args, res := messages(r.Prog, r.Vers, r.Proc)
	m := args
	if r.IsReply {
		m = res
	}
	if m == nil || !r.Whole || r.Err != nil {
		return
	}
	d := xdr.NewDecoder(r.Body)
	if err := m.Parse(&d); err != nil {
		r.Err = err
		return
	}
	r.Message = m
	r.trailing(&d)
}

// trailing reports octets that are left after a message.
func (r *RPC) trailing(d *xdr.Decoder) {
	if n := d.Len(); n > 0 {
		r.Err = fmt.Errorf("%w: %d octets after %s", ErrTrailing, n, r.Name)
	}
}

func (r *RPC) ccp() {
	d := xdr.NewDecoder(r.Body)
	c := new(CCP)
	if r.Err = c.parse(&d, r.IsReply); r.Err == nil {
		r.CCP = c
		r.trailing(&d)
	}
}

// unreduce puts the result that travelled in a Write chunk back into the results. It returns false if the
// results are not whole: the item is not known or was not seen.
func (r *RPC) unreduce(item func(n int) ([]byte, bool)) bool {
	pos, n, ok := chunks.NFSv3.FindResult(r.Prog, r.Vers, r.Proc, r.Body)
	if !ok {
		return false
	}
	data, ok := item(n)
	if !ok || pos > len(r.Body) {
		return false
	}
	m := chunks.Message{Head: r.Body, Items: []chunks.Item{{Pos: pos, Data: data}}}
	if m.Check() != nil {
		return false
	}
	r.Body = m.Append(nil, 0)
	return true
}
