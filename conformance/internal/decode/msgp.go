package decode

import (
	"errors"
	"fmt"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
)

// unpad returns the call in a Send: msg, or what is left of an RDMA_MSGP without its pads (RFC 5666 Section
// 3.9). After an error some pads may be left in it.
func unpad(ev *Event, msg []byte) ([]byte, error) {
	if ev.Header.Type != rpcrdma.MsgTypeMsgP {
		return msg, nil
	}
	msg, err := rpcrdma.UnpadCall(ev.Header, ev.Message.Payload, chunks.NFS)
	return msg, padError(ev.Header, err)
}

// unpadReply is unpad for the reply to c. If c is nil, the call was not seen, and nobody knows where there
// are pads in the results.
func unpadReply(ev *Event, msg []byte, c *call) ([]byte, error) {
	if ev.Header.Type != rpcrdma.MsgTypeMsgP {
		return msg, nil
	}
	var asked call
	if c != nil {
		asked = *c
	}
	h := &asked.header
	msg, err := rpcrdma.UnpadReply(ev.Header, ev.Message.Payload, chunks.NFS, h.Prog, h.Vers, h.Proc)
	return msg, padError(ev.Header, err)
}

// padError says why pads were not removed.
func padError(h *rpcrdma.Header, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rpcrdma.ErrPadding) && rpcrdma.PadsTo(h.Align):
		return ErrPadded
	}
	return fmt.Errorf("padding of RDMA_MSGP, rdma_align %d, rdma_thresh %d: %w", h.Align, h.Thresh, err)
}

// padded notes the error of unpad. An error in the RPC header is more important.
func (r *RPC) padded(err error) {
	if err != nil {
		r.Whole, r.pads = false, true
		if r.Err == nil {
			r.Err = err
		}
	}
}

// doubt withdraws the verdict on an RDMA_MSGP that does not decode. RFC 5666 does not say where the aligned
// positions count from; RFC 8166 Section 4.6.1 calls it incomplete. This package counts from the beginning
// of the Send. A sender may count otherwise, so its arguments need not be wrong.
func (r *RPC) doubt() {
	if r.msgp && r.Err != nil {
		r.Whole, r.Message, r.Compound = false, nil, nil
	}
}
