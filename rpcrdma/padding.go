package rpcrdma

import "github.com/stag-rdma/stag/xdr"

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
