package cases

import (
	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// declared returns the segments that the lists of a header declare, read as tolerantly as possible:
// versions, lengths and sums are not checked, and every word but 0 is TRUE.
func declared(msg []byte) (segs []chunks.Segment) {
	if len(msg) < rpcrdma.FixedSize {
		return nil
	}
	d := xdr.NewDecoder(msg[rpcrdma.FixedSize:])
	segment := func() {
		s := chunks.Segment{Handle: chunks.Handle(d.Uint32()), Length: d.Uint32(), Offset: d.Uint64()}
		if d.Err() == nil {
			segs = append(segs, s)
		}
	}
	for d.Err() == nil && d.Uint32() != 0 {
		d.Uint32() // Position
		segment()
	}
	chunk := func() {
		for n := d.Uint32(); n > 0 && d.Err() == nil; n-- {
			segment()
		}
	}
	for d.Err() == nil && d.Uint32() != 0 {
		chunk()
	}
	if d.Err() == nil && d.Uint32() != 0 {
		chunk()
	}
	return segs
}
