package transport

import (
	"fmt"
	"net"

	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

var zeroPad [4]byte

// padOf returns the XDR pad of item: 0 to 3 zero octets (RFC 4506 Section 3).
func padOf(item []byte) []byte { return zeroPad[:xdr.Pad(len(item))] }

// argsBefore returns the arguments up to the item's data; all of them without an item.
func argsBefore(c *rpc.Call) []byte {
	if c.Item == nil {
		return c.Args
	}
	return c.Args[:c.ItemPos]
}

// argsAfter returns the arguments after the item's data.
func argsAfter(c *rpc.Call) []byte {
	if c.Item == nil {
		return nil
	}
	return c.Args[c.ItemPos:]
}

// argsSize returns the octets of the unreduced arguments.
func argsSize(c *rpc.Call) int {
	n := len(c.Args) + len(c.Item) + xdr.Pad(len(c.Item))
	for i := range c.MoreItems {
		k := len(c.MoreItems[i].Data)
		n += k + xdr.Pad(k)
	}
	return n
}

// mostReply returns how many octets the record of a reply may have: what the call allows, or as much as
// fits inline over RDMA if it does not say.
func mostReply(c *rpc.Call, maxPayload int) int {
	if c.MaxResults < 0 {
		return maxPayload
	}
	n := DefaultInlineSize
	if c.MaxResults > 0 {
		n = max(n, headRoom+c.MaxResults)
	}
	n += len(c.Sink) + xdr.Pad(len(c.Sink))
	for i := range c.MoreSinks {
		k := len(c.MoreSinks[i].Data)
		n += k + xdr.Pad(k)
	}
	return n
}

// checkCall refuses calls that are inconsistent or too large.
func checkCall(c *rpc.Call, cfg *Config) error {
	if !plainCall(c) {
		if err := checkItems(c); err != nil {
			return err
		}
	}
	if len(c.Args)%4 != 0 {
		return &rpc.RPCError{Reason: rpc.ReasonBadCall, Err: fmt.Errorf("arguments of %d octets, want a multiple of 4", len(c.Args))}
	}
	if len(c.Cred.Body) > xdr.MaxAuthBody {
		return &rpc.RPCError{Reason: rpc.ReasonBadCall, Err: fmt.Errorf("credential of %d octets, at most %d", len(c.Cred.Body), xdr.MaxAuthBody)}
	}
	if len(c.Verf.Body) > xdr.MaxAuthBody {
		return &rpc.RPCError{Reason: rpc.ReasonBadCall, Err: fmt.Errorf("verifier of %d octets, at most %d", len(c.Verf.Body), xdr.MaxAuthBody)}
	}
	if n := argsSize(c) + callHeaderMax; n > cfg.MaxPayload {
		return &rpc.RPCError{Reason: rpc.ReasonTooBig, Err: fmt.Errorf("call of %d octets, want at most %d", n, cfg.MaxPayload)}
	}
	return nil
}

// plainCall reports whether the call has neither items nor sinks, like most calls.
func plainCall(c *rpc.Call) bool {
	return c.Item == nil && c.Sink == nil && c.ItemMemory == nil && c.SinkMemory == nil && len(c.MoreItems)+len(c.MoreSinks) == 0
}

// checkItems is checkCall for the items and sinks.
func checkItems(c *rpc.Call) error {
	if c.Item != nil && (c.ItemPos < 4 || c.ItemPos > len(c.Args) || c.ItemPos%4 != 0) {
		return &rpc.RPCError{Reason: rpc.ReasonBadCall, Err: fmt.Errorf("item position %d, want a multiple of 4 in 4 to %d", c.ItemPos, len(c.Args))}
	}
	for _, m := range [...]*rpc.Memory{c.ItemMemory, c.SinkMemory} {
		if m != nil && m.InUse() { // refused even if the call would go inline, so that the bug shows
			return &rpc.RPCError{Reason: rpc.ReasonBadCall, Err: rpc.ErrMemoryInUse}
		}
	}
	if err := checkMore(c); err != nil {
		return &rpc.RPCError{Reason: rpc.ReasonBadCall, Err: err}
	}
	return nil
}

// callHeaderMax is the size of the largest RPC call header in octets.
const callHeaderMax = 40 + 2*xdr.MaxAuthBody

// addrOf returns the peer's address for errors and logs.
func addrOf(c interface{ RemoteAddr() net.Addr }) string {
	if a := c.RemoteAddr(); a != nil {
		return a.String()
	}
	return ""
}
