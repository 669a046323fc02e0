package page

import (
	"slices"

	"github.com/stag-rdma/stag/conformance/internal/decode"
)

// conn is a connection as the page shows it.
type conn struct {
	ID        int        `json:"id"`
	Opener    string     `json:"opener"`
	Accepter  string     `json:"accepter"`
	What      string     `json:"what"`
	Initiator decode.Dir `json:"initiator"` // of MPA: drawn on the left
	Requester decode.Dir `json:"requester"` // of the credits that are drawn
	Rows      []*row     `json:"rows"`
	Marks     []mark     `json:"marks"`
	Broken    int        `json:"broken"`            // violations, including those not kept
	Unknown   []string   `json:"unknown,omitempty"` // what the judge could not know
	Times     []*times   `json:"times,omitempty"`   // how long calls took, by procedure

	pending [2]pending
	calls   calls
}

// pending are the messages of one direction that are not complete yet: one tagged, and one on
// each queue.
type pending struct {
	tagged   *row
	next     uint64 // tagged offset that continues it
	untagged [queues]*row
}

// queues is how many queue numbers are told apart; RFC 7306 Section 10.2 ends at 3.
const queues = 4

// settle copies what has become known about the connection.
func (c *conn) settle(info *decode.ConnInfo) {
	if c.Opener == "" {
		c.Opener, c.Accepter = info.Opener.String(), info.Accepter.String()
	}
	c.Initiator = info.Initiator
	c.What = "iWARP"
	if info.Carrier != decode.CarrierTCP {
		c.What = info.Carrier.String()
	}
	if info.ULP == decode.ULPRPCRDMA && info.Carrier != decode.CarrierTCP {
		c.What = "RPC-over-RDMA, " + c.What
	} else if info.ULP == decode.ULPRPCRDMA {
		c.What = "RPC-over-RDMA"
	}
	if info.CRC {
		c.What += ", CRC"
	}
}

// row returns the row that an event belongs to: that of the message it continues, or a new one.
func (c *conn) row(ev *decode.Event) *row {
	slot := c.slot(ev)
	if slot == nil {
		return newRow(ev)
	}
	if *slot == nil {
		*slot = newRow(ev)
	}
	return *slot
}

// slot returns the place of the message to which an event belongs, nil if it is a message by itself. A
// message in that place that the event does not continue was never finished, and gets its row as it is.
func (c *conn) slot(ev *decode.Event) **row {
	p := &c.pending[ev.Dir]
	switch {
	case ev.DDP == nil:
		return nil
	case ev.DDP.Tagged:
		if r := p.tagged; r != nil && (r.Op != opName(ev) || p.next != ev.DDP.TO) {
			c.close(&p.tagged)
		}
		p.next = ev.DDP.TO + uint64(len(ev.DDP.Payload))
		return &p.tagged
	case ev.DDP.QN < queues:
		slot := &p.untagged[ev.DDP.QN]
		if ev.DDP.MO == 0 {
			c.close(slot)
		}
		return slot
	}
	return nil
}

// close ends the message in a slot, if there is one.
func (c *conn) close(slot **row) {
	if *slot != nil {
		c.Rows = append(c.Rows, *slot)
		*slot = nil
	}
}

// completes reports whether an event ends the message it belongs to.
func completes(ev *decode.Event) bool { return ev.DDP == nil || ev.DDP.Last }

// finish takes a row whose message ev completed.
func (c *conn) finish(r *row, ev *decode.Event) {
	c.calls.note(c, r, ev)
	r.Text = clip(text(ev, r))
	if slot := c.slotOf(r); slot != nil {
		c.close(slot)
		return
	}
	c.Rows = append(c.Rows, r)
}

// slotOf returns the place where r waits, if it does.
func (c *conn) slotOf(r *row) **row {
	p := &c.pending[r.Dir]
	if p.tagged == r {
		return &p.tagged
	}
	for i := range p.untagged {
		if p.untagged[i] == r {
			return &p.untagged[i]
		}
	}
	return nil
}

// end closes the unfinished messages and sorts the rows by their last frames.
func (c *conn) end() {
	for d := range c.pending {
		c.close(&c.pending[d].tagged)
		for i := range c.pending[d].untagged {
			c.close(&c.pending[d].untagged[i])
		}
	}
	slices.SortStableFunc(c.Rows, func(a, b *row) int { return a.Frame - b.Frame })
	for i, r := range c.Rows {
		r.index = i
	}
	for _, r := range c.Rows {
		if r.peer != nil {
			r.Peer = r.peer.index + 1
		}
	}
}
