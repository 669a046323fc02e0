package judge

import (
	"fmt"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/conformance/internal/decode"
)

// Programs whose upper-layer bindings are known.
const (
	progRPCBind = 100000
	progNFS     = 100003
	progMount   = 100005
	progNLM     = 100021
	progNFSACL  = 100227
	progCCP     = 100417
)

// binding is which items of a program may be reduced.
type binding uint8

const (
	bindingUnknown binding = iota // anything may be
	bindingNone                   // nothing may be
	bindingNFS3                   // RFC 8267 Section 4
	bindingNFS4                   // RFC 8267 Section 5: by operation
)

// bindingOf returns the binding of a call.
func bindingOf(c *rpcCall) binding {
	switch {
	case c.proc == 0:
		return bindingNone // no arguments, no results (RFC 5531 Section 12.1)
	case c.prog == progNFS && c.progVers == 3:
		return bindingNFS3
	case c.prog == progNFS && c.progVers == 4:
		return bindingNFS4
	case c.prog == progMount, c.prog == progNLM, c.prog == progNFSACL, c.prog == progCCP, c.prog == progRPCBind:
		return bindingNone
	}
	return bindingUnknown
}

// name returns the name of a call for texts.
func (c *rpcCall) name() string { return fmt.Sprintf("procedure %d/%d/%d", c.prog, c.progVers, c.proc) }

// replyRoom judges whether there is room for the largest reply that NFSv3 can give (RFC 8166 Section 4.3.3),
// and whether the room for the data of READ is larger than the data.
func (m *rpcMachine) replyRoom(ev *decode.Event, c *rpcCall) {
	limit := m.threshold(1 - ev.Dir)
	if bindingOf(c) != bindingNFS3 || limit == 0 || c.gss {
		return
	}
	rest, item, ok := chunks.NFSv3.MaxResults(c.prog, c.progVers, c.proc, ev.RPC.Body)
	if !ok {
		return
	}
	if c.proc == procReadDir || c.proc == procReadDirPlus {
		rest -= 1024 // what the binding adds for servers that exceed the limit
	}
	size := replyHeader + rest
	for _, w := range c.lists.Write {
		size += 8 + chunks.SegmentSize*len(w)
	}
	if len(c.lists.Write) == 0 {
		size += (item + 3) &^ 3
	} else if room := c.lists.Write[0].Room(); c.proc == procRead && room > uint64(item) && room-uint64(item) <= 4 && item%4 != 0 {
		m.violate("RPCRDMA-039", "a Write chunk of %d octets for %d", room, item)
	}
	if size > limit && !c.lists.HasReply {
		m.violateAfter(c.odd, ev.Dir, "RPCRDMA-043", "the reply to %s may have %d octets, the inline threshold is %d", c.name(), size, limit)
	}
}

// Procedures of NFSv3 that need rules of their own.
const (
	procRead        = 6
	procReadDir     = 16
	procReadDirPlus = 17
)

// replyHeader is the least number of octets before the results: the transport header, and the header of an
// accepted reply.
const replyHeader = 28 + 24
