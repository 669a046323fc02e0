package decode

// What the tests need of the inside.

// Patience is for how many packets octets are waited for.
const Patience = patience

// GuessULP tells what a message may be of.
var GuessULP = guessULP

// Success reports whether a reply has results.
func (r *RPC) Success() bool { return r.success() }

// Plain returns r as if it had not come in an RDMA_MSGP.
func (r RPC) Plain() RPC { r.msgp = false; return r }

// Kept returns how many octets of a direction are kept, at how many places an FPDU might begin, and
// whether the direction is lost.
func (c *Conn) Kept(dir Dir) (octets, starts int, lost bool) {
	s := &c.sides[dir]
	return len(s.buf), len(s.sync.starts), s.phase == phaseLost
}

// Left returns the memory that is free, and the flows that are not over.
func (c *Capture) Left() (octets, flows int) { return c.mem.left, len(c.flows) }
