package decode

import "github.com/stag-rdma/stag/xdr"

// CCP is a message of the Connection Configuration Protocol, procedure CONF_RDMA (RFC 5666
// Section 6). All sizes are octets.
type CCP struct {
	MaxCallSend  uint32 // call and reply: largest inline call
	MaxReplySend uint32 // call: largest inline reply
	Align        uint32 // reply: alignment for RDMA_MSGP, 0 or 1 for none
	MaxRDMARead  uint32 // call and reply: RDMA Reads that may be outstanding towards the sender
}

// parse reads the three words of either message.
func (c *CCP) parse(d *xdr.Decoder, reply bool) error {
	c.MaxCallSend = d.Uint32()
	if reply {
		c.Align = d.Uint32()
	} else {
		c.MaxReplySend = d.Uint32()
	}
	c.MaxRDMARead = d.Uint32()
	return d.ErrIn("CONF_RDMA")
}
