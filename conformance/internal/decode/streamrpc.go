package decode

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/stag-rdma/stag/xdr"
)

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
