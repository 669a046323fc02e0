package rdmap

import (
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// extraSlots is how many requests beyond IRD are accepted while extensions are in force: RFC 7306
// Section 5.2 asks for queue 1 buffers for atomics in addition to those for Reads. This side's own
// requests stay within ORD all the same.
const extraSlots = 16

// negotiateExtensions returns the extensions in force on c.
func (c *Conn) negotiateExtensions() verbs.Extensions {
	x := c.cfg.Extensions
	if c.peerCap.mulpdu != 0 {
		x &= extensionsOf(c.peerCap.features)
	}
	return engine.Normal(x)
}
