package page

import (
	"fmt"
	"slices"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
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

// calls follows the XIDs of one connection, so that every arrow can be drawn in the colour of the call that
// it serves, and every reply finds its call.
type calls struct {
	known     bool // the requester: who sent the first call
	requester decode.Dir
	waiting   [2]map[uint32]*row   // calls by their direction and XID
	memory    [2]map[ddp.STag]*row // calls by direction and what they offered
	sinks     [2]map[ddp.STag]*row // calls served by Read Requests of a direction
	times     map[string]*times
}

// times says how long the calls of a procedure took, from the packet that completed the call to the one that
// completed the reply, in nanoseconds: what tshark -z rpc,srt prints.
type times struct {
	Name  string `json:"name"`
	Calls int    `json:"calls"`
	Min   int64  `json:"min"`
	Max   int64  `json:"max"`
	Sum   int64  `json:"sum"`
}

// took enters a call.
func (s *calls) took(c *conn, name string, ns int64) {
	t := s.times[name]
	if t == nil {
		if len(s.times) >= maxCalls {
			return
		}
		if s.times == nil {
			s.times = make(map[string]*times)
		}
		t = &times{Name: name, Min: ns}
		s.times[name] = t
		c.Times = append(c.Times, t)
	}
	t.Calls++
	t.Min, t.Max, t.Sum = min(t.Min, ns), max(t.Max, ns), t.Sum+ns
}

// maxCalls bounds each of these maps, in entries. What connections that never answer have asked is
// forgotten.
const maxCalls = 4096

// note takes a finished row: it finds out which XID the message serves.
func (s *calls) note(c *conn, r *row, ev *decode.Event) {
	switch {
	case ev.Header != nil:
		s.header(c, r, ev)
		c.Requester = s.requester
	case ev.RDMAP == nil:
	case ev.RDMAP.Op == verbs.OpWrite:
		r.serve(s.memory[1-ev.Dir][ev.DDP.STag])
	case ev.RDMAP.Op == verbs.OpReadResponse:
		r.serve(s.sinks[1-ev.Dir][ev.DDP.STag])
	case ev.Message != nil && ev.Message.Read != nil:
		call := s.memory[1-ev.Dir][ev.Message.Read.SourceSTag]
		if r.serve(call); call != nil {
			put(&s.sinks[ev.Dir], ev.Message.Read.SinkSTag, call)
		}
	}
}

// header takes a Send with an RPC-over-RDMA header.
func (s *calls) header(c *conn, r *row, ev *decode.Event) {
	h := ev.Header
	r.XID, r.Credit = fmt.Sprintf("%#08x", h.XID), &h.Credit
	switch {
	case h.Type == rpcrdma.MsgTypeDone:
		return
	case h.Type == rpcrdma.MsgTypeError || ev.RPC != nil && ev.RPC.IsReply || h.Type == rpcrdma.MsgTypeNoMsg && len(h.Read) == 0:
		if call := s.reply(r, h.XID); call != nil && ev.RPC != nil && ev.RPC.Name != "" {
			s.took(c, ev.RPC.Name, r.At-call.At)
		}
	default:
		s.call(r, h)
	}
	if s.known {
		n := len(s.waiting[s.requester])
		r.Open = &n
	}
}

// call enters a call, with the memory that it offers.
func (s *calls) call(r *row, h *rpcrdma.Header) {
	if !s.known {
		s.known, s.requester = true, r.Dir
	}
	put(&s.waiting[r.Dir], h.XID, r)
	for _, seg := range h.Read {
		put(&s.memory[r.Dir], ddp.STag(seg.Handle), r)
	}
	for _, w := range h.Write {
		for _, seg := range w {
			put(&s.memory[r.Dir], ddp.STag(seg.Handle), r)
		}
	}
	for _, seg := range h.Reply {
		put(&s.memory[r.Dir], ddp.STag(seg.Handle), r)
	}
}

// reply joins a reply with its call, nil if there is none.
func (s *calls) reply(r *row, xid uint32) *row {
	waiting := s.waiting[1-r.Dir]
	call := waiting[xid]
	if call != nil {
		r.peer, call.peer = call, r
		delete(waiting, xid)
	}
	return call
}

// serve says that the row moves data for a call.
func (r *row) serve(call *row) {
	if call != nil {
		r.XID, r.peer = call.XID, call
	}
}

// put enters a value into a map, which is emptied first if it is full.
func put[K comparable](m *map[K]*row, k K, r *row) {
	if *m == nil || len(*m) >= maxCalls {
		*m = make(map[K]*row)
	}
	(*m)[k] = r
}

// mark is a violation as the page shows it.
type mark struct {
	Rule   string     `json:"rule"`
	Row    int        `json:"row"` // -1: none holds it
	Frame  int        `json:"frame"`
	Dir    decode.Dir `json:"dir"`
	Offset uint64     `json:"offset"`
	Detail string     `json:"detail"`
	Folded int        `json:"folded,omitempty"` // consequences
	After  []string   `json:"after,omitempty"`  // the first of them, in words
}

// maxAfter bounds the consequences of one violation that are listed.
const maxAfter = 20

// rule is what the page says about a rule.
type rule struct {
	Source   string `json:"source"`
	Level    string `json:"level"`
	Severity string `json:"severity"`
	Text     string `json:"text"`
	Quote    string `json:"quote"`
}

// report attaches the violations to their rows, and returns the rules that were broken.
func (b *Builder) report(rep *judge.Report) map[string]rule {
	rules := make(map[string]rule)
	if rep == nil {
		return rules
	}
	for _, cr := range rep.Connections {
		c := b.byID[cr.Info.ID]
		if c == nil && len(cr.Counts) > 0 && len(b.conns) < b.opt.MaxMessages { // broken in messages that are not shown
			c = b.conn(cr.Info.ID)
			c.settle(cr.Info)
		}
		if c == nil {
			continue
		}
		c.Unknown = cr.Unknown
		for _, n := range cr.Counts {
			c.Broken += n
		}
	}
	for _, v := range rep.Violations {
		if c := b.byID[v.Conn.ID]; c != nil {
			r := v.Rule
			rules[r.ID] = rule{r.Source, r.Level.String(), r.Severity.String(), r.Text, r.Quote()}
			c.mark(v)
		}
	}
	return rules
}

// mark attaches a violation to the row that holds it. Rows are in the order of their last frames, so the
// search begins at the first that does not end before the violation.
func (c *conn) mark(v *judge.Violation) {
	m := mark{Rule: v.Rule.ID, Row: -1, Frame: v.Frame, Dir: v.Dir, Offset: v.Offset, Detail: clip(v.Detail), Folded: v.Folded}
	for _, u := range v.Consequences[:min(len(v.Consequences), maxAfter)] {
		m.After = append(m.After, clip(fmt.Sprintf("frame %d %v %s: %s", u.Frame, u.Dir, u.Rule.ID, u.Detail)))
	}
	n, _ := slices.BinarySearchFunc(c.Rows, v.Frame, func(r *row, frame int) int { return r.Frame - frame })
	for ; n < len(c.Rows) && m.Row < 0; n++ {
		if c.Rows[n].holds(v) {
			c.Rows[n].Marks = append(c.Rows[n].Marks, len(c.Marks))
			m.Row = n
		}
	}
	c.Marks = append(c.Marks, m)
}
