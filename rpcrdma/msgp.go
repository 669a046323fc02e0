package rpcrdma

import (
	"bytes"
	"encoding/binary"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/xdr"
)

// padding is what a sender knows about the alignment of its peer.
type padding struct {
	align int // of the peer's receive buffers; 0: send no RDMA_MSGP
	min   int // size from which an item is aligned, octets
}

// fits reports whether a message can go as an RDMA_MSGP in a Send of at most limit
// octets, with its item of item octets aligned. inline is the octets of its stream,
// that item included, and hdr the size of its header as an RDMA_MSG.
//
// Choice: only one item is padded, and only if it is longer than all other octets of
// the message together. Then rdma_thresh can be its length, and no other item reaches
// that, whatever the other octets are.
func (p *padding) fits(hdr, inline, item, limit int) bool {
	return p.align > 0 && item >= max(p.min, 1) && item > inline-item-xdr.Pad(item) &&
		hdr+msgPSize+p.align-1+inline <= limit
}

// msgPSize is how many octets an RDMA_MSGP header is longer than an RDMA_MSG header.
const msgPSize = 8

// appendPadded appends h as an RDMA_MSGP, and the pieces of the inline stream with
// the pad inserted before the item, n octets at offset pos of that stream.
func (p *padding) appendPadded(b []byte, h *Header, pieces [][]byte, pos, n int) []byte {
	start := len(b)
	h.Type, h.Align, h.Thresh = MsgTypeMsgP, uint32(p.align), uint32(n)
	b = h.Append(b)
	body := len(b)
	for _, piece := range pieces {
		if k := pos - (len(b) - body); k >= 0 && k < len(piece) {
			b = append(b, piece[:k]...)
			for range padTo(len(b)-start, p.align) {
				b = append(b, 0)
			}
			piece, pos = piece[k:], -1
		}
		b = append(b, piece...)
	}
	return b
}

// An RDMA_MSGP (RFC 5666 Section 3.9) has pad octets before the data of every
// variable-length opaque and string of at least rdma_thresh octets, credential
// and verifier included, so that they begin at a multiple of rdma_align.
//
// Choice: positions count from the first octet of the Send, header included,
// because the receive buffer is what is aligned. RFC 5666 says "current XDR stream
// position", and RFC 8166 Section 4.6.1 calls that incomplete. Pads are sent as 0
// and ignored. An item of exactly rdma_thresh octets is padded: that is the sender's
// rule, which the receiver's "exceeds" in the same section contradicts.

// padTo returns the pad octets that bring pos to a multiple of align, a power of two.
func padTo(pos, align int) int { return -pos & (align - 1) }

// gap is n pad octets at offset off of the inline stream.
type gap struct{ off, n int }

// closer finds the pads of an RDMA_MSGP and takes them out.
type closer struct {
	h      *Header
	hdr    int    // octets before the stream in the Send
	stream []byte // inline octets, pads among them
	gaps   []gap  // before each item that reaches the threshold; may have no octets
	anchor int    // index in gaps: the one before the longest such item
	most   int    // length of that item
	gone   int    // octets of items that travel by read chunk, so far
	pads   int    // pad octets so far
}

// visit is the chunks.Visit of the items that begin at offset base of the stream.
func (c *closer) visit(base int) chunks.Visit {
	return func(pos, n int) int {
		pos += base
		if n > 1<<30 {
			return -1
		}
		if c.chunkAt(pos - c.pads + c.gone) {
			c.gone += n + xdr.Pad(n)
			return 0
		}
		pad := 0
		if uint32(n) >= c.h.Thresh {
			pad = padTo(c.hdr+pos, int(c.h.Align))
		}
		if n > len(c.stream)-pos-pad {
			return -1 // gaps lie in the stream
		}
		if uint32(n) >= c.h.Thresh {
			if n > c.most || len(c.gaps) == 0 {
				c.anchor, c.most = len(c.gaps), n
			}
			c.gaps = append(c.gaps, gap{pos, pad})
			c.pads += pad
		}
		return pad + n + xdr.Pad(n)
	}
}

// chunkAt reports whether a read chunk has the data due at a Position, which counts
// the stream without pads.
func (c *closer) chunkAt(pos int) bool {
	for i := range c.h.Read {
		if p := c.h.Read[i].Position; p > 0 && int64(p) == int64(pos) {
			return true
		}
	}
	return false
}

// auth walks a credential or verifier at offset pos and returns its end.
func (c *closer) auth(pos int) (end int, ok bool) {
	if pos > len(c.stream)-8 {
		return 0, false
	}
	n := binary.BigEndian.Uint32(c.stream[pos+4:])
	if n > xdr.MaxAuthBody {
		return 0, false
	}
	end = pos + 8 + c.visit(0)(pos+8, int(n))
	return end, end >= pos+8 && end <= len(c.stream)
}

// protected reports whether the credential at offset pos, which ends at end, is one of
// RPCSEC_GSS that hides the body.
func (c *closer) protected(pos, end int) bool {
	n := int(binary.BigEndian.Uint32(c.stream[pos+4:]))
	body := c.stream[end-xdr.Pad(n)-n:][:n]
	a := xdr.Auth{Flavor: xdr.AuthFlavor(binary.BigEndian.Uint32(c.stream[pos:])), Body: body}
	return a.Protected()
}

// run returns the stream with the pads taken out. It moves octets inside the
// stream, but never those of the longest item, which stay where the sender had
// them aligned.
func (c *closer) run() []byte {
	if len(c.gaps) == 0 {
		return c.stream
	}
	s, from := c.stream, c.gaps[c.anchor].off+c.gaps[c.anchor].n
	for i := c.anchor; i >= 0; i-- { // what is before it moves up
		start := 0
		if i > 0 {
			start = c.gaps[i-1].off + c.gaps[i-1].n
		}
		from -= c.gaps[i].off - start
		copy(s[from:], s[start:c.gaps[i].off])
	}
	to := len(s)
	if next := c.anchor + 1; next < len(c.gaps) {
		to = c.gaps[next].off
	}
	for i := c.anchor + 1; i < len(c.gaps); i++ { // what is after it moves down
		end := len(s)
		if i+1 < len(c.gaps) {
			end = c.gaps[i+1].off
		}
		to += copy(s[to:], s[c.gaps[i].off+c.gaps[i].n:end])
	}
	return s[from:to]
}

// call finds the pads of a call. Errors: [ErrPadding], [ErrRPC], or [ErrArgs] when the
// arguments do not decode.
func (c *closer) call(b chunks.Binding) error {
	stream := c.stream
	if !PadsTo(c.h.Align) {
		return ErrPadding
	}
	if len(stream) >= 12 && binary.BigEndian.Uint32(stream[8:]) != xdr.RPCVersion {
		return nil // nobody looks further
	}
	if len(stream) < 24 {
		return ErrRPC
	}
	word := func(i int) uint32 { return binary.BigEndian.Uint32(stream[4*i:]) }
	prog, vers, proc := word(3), word(4), word(5)
	pos, ok := c.auth(24)
	protected := ok && c.protected(24, pos)
	if ok {
		pos, ok = c.auth(pos)
	}
	if !ok {
		return ErrRPC
	}
	if protected && pos < len(stream) {
		return ErrPadding // nobody can say where pads are in it
	}
	w := chunks.WalkerOf(b, prog, vers)
	if pos < len(stream) && w == nil {
		return ErrPadding
	}
	if pos < len(stream) && !w.WalkArgs(prog, vers, proc, stream[pos:], c.visit(pos)) {
		return ErrArgs
	}
	return nil
}

// reply is call for the reply to a call of that procedure.
func (c *closer) reply(b chunks.Binding, prog, vers, proc uint32) error {
	stream := c.stream
	if !PadsTo(c.h.Align) {
		return ErrPadding
	}
	if len(stream) < 12 {
		return ErrRPC
	}
	if binary.BigEndian.Uint32(stream[8:]) != 0 {
		return nil // MSG_DENIED has no such item
	}
	pos, ok := c.auth(12)
	if !ok || pos+4 > len(stream) {
		return ErrRPC
	}
	success := binary.BigEndian.Uint32(stream[pos:]) == uint32(xdr.Success)
	if pos += 4; !success || pos == len(stream) {
		return nil
	}
	w := chunks.WalkerOf(b, prog, vers)
	if w == nil {
		return ErrPadding
	}
	if !w.WalkResults(prog, vers, proc, stream[pos:], c.visit(pos)) {
		return ErrArgs
	}
	return nil
}

// closeCall takes the pads out of the call in stream, which begins at offset hdr of its Send,
// and returns what is left of it. Errors are those of call.
func closeCall(h *Header, hdr int, stream []byte, b chunks.Binding) ([]byte, error) {
	c := closer{h: h, hdr: hdr, stream: stream}
	if err := c.call(b); err != nil {
		return nil, err
	}
	return c.run(), nil
}

// closeReply is closeCall for the reply to call.
func closeReply(h *Header, hdr int, stream []byte, b chunks.Binding, call *Call) ([]byte, error) {
	c := closer{h: h, hdr: hdr, stream: stream}
	if err := c.reply(b, call.Prog, call.Vers, call.Proc); err != nil {
		return nil, err
	}
	return c.run(), nil
}

// IsPadded reports whether a Send is an RDMA_MSGP. Its receiver should move it to aligned memory
// before it calls Receive.
func IsPadded(send []byte) bool {
	return len(send) >= MinHeaderSize && binary.BigEndian.Uint32(send[12:]) == uint32(MsgTypeMsgP)
}

// UnpadCall returns the RPC call in an RDMA_MSGP (RFC 5666 Section 3.9) as it would be inline in
// an RDMA_MSG. It is for observers such as decoders: the machines do this themselves. send is the
// whole Send from which h was decoded. It is borrowed and not changed; the call is in new memory.
// b, if it is a [chunks.Walker], says where the items of its programs are.
//
// With an error, UnpadCall returns the call without the pads found until then; those of credential
// and verifier come first. The error is [ErrPadding] for an invalid alignment, or for
// arguments of a program that b does not walk, and [ErrRPC] or [ErrArgs] if the message ends
// inside its header or its arguments.
func UnpadCall(h *Header, send []byte, b chunks.Binding) ([]byte, error) {
	c := looker(h, send)
	err := c.call(b)
	return c.run(), err
}

// UnpadReply is like [UnpadCall], for the reply to a call of that program, version and procedure.
func UnpadReply(h *Header, send []byte, b chunks.Binding, prog, vers, proc uint32) ([]byte, error) {
	c := looker(h, send)
	err := c.reply(b, prog, vers, proc)
	return c.run(), err
}

// looker returns a closer that leaves send alone.
func looker(h *Header, send []byte) *closer {
	hdr := min(h.Size(), len(send))
	return &closer{h: h, hdr: hdr, stream: bytes.Clone(send[hdr:])}
}
