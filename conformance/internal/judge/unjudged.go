package judge

import (
	"fmt"

	"github.com/stag-rdma/stag/conformance/internal/decode"
)

// Gap is why a message was not judged by every rule: a rule that needs what the capture does not show is
// silent.
type Gap uint8

// The gaps; of several the first is counted.
const (
	// UnknownSTag: an RDMA Read or Write of memory whose offer the capture does not show.
	UnknownSTag Gap = iota
	// NoStart: the capture begins in the middle of the connection.
	NoStart
	// OneSide: nothing of the other side is in the capture.
	OneSide
	// Truncated: octets before the message were cut off by the snap length.
	Truncated
	// Lost: octets before the message are missing from the capture for another reason.
	Lost
	// Damaged: octets before the message could not be understood; the rule that they break is reported.
	Damaged
	// Protected: RPCSEC_GSS encrypts the body, or adds a checksum to it.
	Protected
	numGaps
)

// String returns the reason, without a full stop.
func (g Gap) String() string {
	return [...]string{
		"unknown STags: what offered the memory is not in the capture",
		"no start: the capture begins in the middle of the connection",
		"one side is missing from the capture",
		"packets before them are truncated by the snap length",
		"octets before them are missing from the capture",
		"they follow a frame that cannot be understood",
		"RPCSEC_GSS encrypts them, or has its own octets in them, behind the header",
	}[g]
}

// Messages counts the RDMAP messages of a connection whose last segment is in the capture.
type Messages struct {
	Judged int          // by every rule that applies
	Partly [numGaps]int // by the rules that need no more than the capture shows, by [Gap]
}

// Unjudged returns how many messages could only be judged in part.
func (m *Messages) Unjudged() (n int) {
	for _, k := range m.Partly {
		n += k
	}
	return n
}

// Reasons returns a sentence for each gap, without a full stop.
func (m *Messages) Reasons() (all []string) {
	for g, n := range m.Partly {
		if n > 0 {
			all = append(all, fmt.Sprintf("%d of %d messages judged in part: %v", n, m.Judged+m.Unjudged(), Gap(g)))
		}
	}
	return all
}

// tally counts the message that an event ends, after all machines have seen it.
func (c *conn) tally(ev *decode.Event) {
	c.spoke[ev.Dir] = c.spoke[ev.Dir] || ev.Len > 0
	if ev.DDP == nil || !ev.DDP.Last {
		return
	}
	if g, ok := c.gap(ev); ok {
		c.messages.Partly[g]++
	} else {
		c.messages.Judged++
	}
	c.strange = false
}

// oneSided counts all messages under OneSide if the other side never said anything.
func (c *conn) oneSided() {
	if n := c.messages.Unjudged(); n > 0 && c.spoke[0] != c.spoke[1] {
		c.messages.Partly = [numGaps]int{OneSide: n}
	}
}

// gap returns what keeps rules silent about the message that ends now.
func (c *conn) gap(ev *decode.Event) (Gap, bool) {
	unknown := func(u decode.Unknown) bool { return c.info.Unknown&u != 0 }
	switch {
	case c.strange:
		return UnknownSTag, true
	case c.late:
		return NoStart, true
	case ev.RPC != nil && ev.RPC.GSS != "" && ev.RPC.GSS != "none":
		return Protected, true
	case !c.doubt[0] && !c.doubt[1]:
		return 0, false
	case unknown(decode.UnknownTruncated):
		return Truncated, true
	case unknown(decode.UnknownHole):
		return Lost, true
	}
	return Damaged, true
}
