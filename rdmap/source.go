package rdmap

import (
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
)

// source is a Conn as its link sees it. It belongs to the holder of the reading role.
type source Conn

// intake is what Room has prepared, for Got.
type intake struct {
	fresh  bool // the staging was borrowed for this read
	placed bool // the octets go to their places
	room   int  // octets of the staging
	much   bool // the last read filled its room, or brought more than a small staging holds
}

// Room implements drive.Source. A link that waits with the memory gets little, unless the peer sends much.
func (s *source) Room(held bool) (flat []byte, places [][]byte) {
	c, in := (*Conn)(s), &s.intake
	in.fresh, in.placed = c.st == nil, false
	switch {
	case c.st != nil && !held:
		if places = c.places(); places != nil {
			in.placed = true
			return nil, places
		}
		if len(c.st.B) < buf.Big {
			// A parked staging is filled before a big one replaces it: there may be no input.
			if c.st.W < len(c.st.B) {
				in.room = len(c.st.B) - c.st.W
				return c.st.B[c.st.W:], nil
			}
			c.st = c.st.Move(buf.Big)
		}
	case c.st != nil:
	case held && !in.much:
		c.st = buf.NewStaging(buf.Small)
	default:
		c.st = buf.NewStaging(buf.Big)
	}
	c.st, flat = c.st.Room(c.rcv.Deframer.Need(c.st.Pending()))
	if in.fresh && !held && c.cfg.BusyPoll <= 0 && c.snd.Long.Load() > 0 {
		flat = flat[:engine.ShortRead]
	}
	in.room = len(flat)
	return flat, nil
}

// places returns where the next octets belong if they are the payloads of a Read Response, otherwise nil.
func (c *Conn) places() [][]byte {
	if len(c.st.B) < buf.Big || c.st.R == c.st.W || c.cfg.BusyPoll > 0 {
		return nil
	}
	return c.rcv.Places(c.st)
}

// Got implements drive.Source.
func (s *source) Got(n int) {
	c, in := (*Conn)(s), &s.intake
	switch {
	case n > 0 && in.placed:
		c.rcv.Landed(c.st, n)
	case n > 0:
		c.st.W += n
		in.much = n == in.room || n > buf.Small
	case in.placed:
		c.rcv.Missed()
	case in.fresh:
		c.st.Release()
		c.st = nil
	}
}
