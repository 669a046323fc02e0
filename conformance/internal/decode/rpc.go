package decode

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
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
	Message xdr.Message
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
	if err := xdr.Decode(&d, m).Err(); err != nil {
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

// RPC program numbers seen on RPC-over-RDMA connections besides NFS and MOUNT.
const (
	progRPCBind  = 100000
	progNLM      = 100021
	progNFSACL   = 100227
	progCCP      = 100417     // rdmaconfig, RFC 5666 Section 6
	progCallback = 0x40000000 // the NFSv4 callback program as Linux numbers it
)

// programName returns the usual name of a program, or its number.
func programName(prog uint32) string {
	switch prog {
	case nfs3.Program:
		return "NFS"
	case mount3.Program:
		return "MOUNT"
	case progRPCBind:
		return "RPCBIND"
	case progNLM:
		return "NLM"
	case progNFSACL:
		return "NFSACL"
	case progCCP:
		return "CCP"
	case progCallback:
		return "NFS4CB"
	}
	return fmt.Sprintf("program-%d", prog)
}

// procName returns the name of a procedure, or its number.
func procName(prog, vers, proc uint32) string {
	var names []string
	switch {
	case proc == 0:
		return "NULL" // of every program, RFC 5531 Section 12.1
	case prog == nfs3.Program && vers == nfs3.Version && nfs3.Proc(proc).Known():
		return nfs3.Proc(proc).String()
	case prog == mount3.Program && proc < mount3.ProcCount:
		return mount3.Proc(proc).String()
	case prog == nfs3.Program && vers == 4, prog == progCallback:
		names = []string{1: "COMPOUND"}
	case prog == progNFSACL:
		names = []string{1: "GETACL", "SETACL", "GETATTR", "ACCESS", "GETXATTRDIR"}
	case prog == progCCP:
		names = []string{1: "CONF_RDMA"}
	}
	if int64(proc) < int64(len(names)) {
		return names[proc]
	}
	return fmt.Sprintf("proc-%d", proc)
}

// messages returns empty values for the arguments and results of a procedure, nil when this
// package has no codec for it.
func messages(prog, vers, proc uint32) (args, res xdr.Message) {
	switch {
	case prog == nfs3.Program && vers == nfs3.Version && nfs3.Proc(proc).Known():
		return nfs3.Proc(proc).NewArgs(), nfs3.Proc(proc).NewRes()
	case prog == mount3.Program && vers == mount3.Version && proc < mount3.ProcCount:
		return mount3.Proc(proc).NewArgs(), mount3.Proc(proc).NewRes()
	}
	return nil, nil
}

// status returns the word with which NFS and MNT results begin, and its name. The name is "" for procedures
// without such a word, and for results that are too short.
func status(prog, vers, proc uint32, results []byte) (code uint32, name string) {
	d := xdr.NewDecoder(results)
	code = d.Uint32()
	if d.Err() != nil || proc == 0 {
		return 0, ""
	}
	switch {
	case prog == nfs3.Program && vers == nfs3.Version, prog == progNFSACL:
		return code, nfs3.Status(code).String()
	case prog == mount3.Program && mount3.Proc(proc) == mount3.ProcMnt:
		return code, mount3.Status(code).String()
	case proc == 1 && (prog == nfs3.Program && vers == 4 || prog == progCallback):
		return code, nfs4Status(code)
	}
	return 0, ""
}

// ErrRecord: octets that are no record of RPC over TCP (RFC 5531 Section 11) in a stream that has begun with such.
// What follows them is not decoded.
var ErrRecord = errors.New("not a record of RPC")

// recordHeader is the mark of a fragment, and of the message its XID and its type.
const recordHeader = 4 + 8

// lastFragment marks the last fragment of a record.
const lastFragment = 1 << 31

// beginsRecord reports whether octets may be the beginning of a stream of RPC over TCP: one fragment, or the
// first of several, of a plausible call.
func beginsRecord(b []byte) bool {
	if len(b) < recordHeader {
		return false
	}
	be := binary.BigEndian
	n, typ := be.Uint32(b)&^lastFragment, be.Uint32(b[8:])
	switch {
	case n < 8 || n > 1<<30:
		return false
	case typ != uint32(xdr.MsgCall) || len(b) < recordHeader+4:
		return false
	}
	return be.Uint32(b[12:]) == xdr.RPCVersion
}

// records decodes the records that are whole in a side, from its beginning.
func (c *Conn) records(dir Dir) {
	s := &c.sides[dir]
	for s.phase == phaseRecord {
		if tls, _ := beginsTLS(s.buf); tls {
			c.encrypted(dir)
			return
		}
		msg, n, err := record(s.buf, 4*c.opt.MaxMessage)
		if err != nil {
			c.lose(dir, err)
			return
		}
		if n == 0 {
			return
		}
		ev := c.frame(KindRecord, dir, 0, n)
		r := c.rpc.record(ev, msg)
		ev.RPC = r
		if r.Err != nil {
			ev.fail(r.Err)
		}
		c.visit(ev)
		s.consume(n)
	}
}

// beginsTLS reports whether octets are the beginning of a record of TLS (RFC 8446 Section 5.1), or, with more, may be: there
// are too few to tell. As a record mark they would announce a fragment of more than 300 MiB.
func beginsTLS(b []byte) (tls, more bool) {
	const changeCipherSpec, applicationData, major, last = 20, 23, 3, 4
	switch {
	case len(b) == 0 || b[0] < changeCipherSpec || b[0] > applicationData || len(b) > 1 && b[1] != major || len(b) > 2 && b[2] > last:
		return false, false
	case len(b) < 3:
		return false, true
	}
	return true, false
}

// encrypted gives up decoding a side that goes on within TLS, and says so once.
func (c *Conn) encrypted(dir Dir) {
	c.Info.Encrypted, c.Info.Foreign = true, true
	c.lose(dir, ErrEncrypted)
	c.sides[dir].why = ErrNotMPA
}

// record returns the message of the record at the start of b, and how many octets of b it is; 0 while it is not
// whole. Its fragments are joined, so that the message may alias b.
func record(b []byte, limit int) (msg []byte, n int, err error) {
	for {
		if len(b)-n < 4 {
			return nil, 0, nil
		}
		mark := binary.BigEndian.Uint32(b[n:])
		size := int(mark &^ lastFragment)
		if size > limit || len(msg)+size > limit {
			return nil, 0, fmt.Errorf("%w: more than %d octets", ErrRecord, limit)
		}
		if len(b)-n-4 < size {
			return nil, 0, nil
		}
		part := b[n+4 : n+4+size]
		if n += 4 + size; mark&lastFragment != 0 {
			if msg == nil {
				return part, n, nil
			}
			return append(msg, part...), n, nil
		}
		msg = append(msg, part...)
	}
}

// record decodes one message of RPC over TCP.
func (s *rpcState) record(ev *Event, msg []byte) *RPC {
	r := &RPC{Whole: true}
	xid, typ, ok := xdr.PeekXID(msg)
	r.XID = xid
	switch {
	case !ok:
		r.Err = fmt.Errorf("%w: %d octets", ErrRecord, len(msg))
	case typ == xdr.MsgReply:
		r.IsReply = true
		table := &s.calls[1-ev.Dir]
		call := table.byXID[xid]
		r.parseReply(msg)
		if call == nil {
			r.Err = ErrNoCall
			break
		}
		r.answers(call)
		r.decodeBody(nil)
		table.remove(call, s.mem)
	default:
		r.parseCall(msg)
		c := &call{xid: xid, frame: ev.Frame}
		c.know(r)
		s.calls[ev.Dir].add(c, s.opt.MaxCalls, s.mem)
		r.decodeBody(nil)
	}
	return r
}
