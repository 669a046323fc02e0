package judge

import (
	"fmt"

	"github.com/stag-rdma/stag/conformance/internal/decode"
)

// machine judges one concern of one connection. Its memory is bounded.
type machine interface {
	// event takes every event of the connection, in order. A machine of an upper layer leaves
	// events alone that a lower one has found wrong: conn.found is not 0.
	event(ev *decode.Event)
	// end says that the connection has ended.
	end()
}

// conn is one connection: what all machines need to know, and the machines.
type conn struct {
	j    *Judge
	info *decode.ConnInfo

	machines []machine
	reads    *reads
	rpc      *rpcMachine
	ev       *decode.Event // the event being judged; in end, the last one
	last     decode.Event  // Dir, Frame, Time, Offset of the event judged last; the rest is gone
	found    int           // violations of severity Error in the event being judged so far

	// doubt: not everything that this direction sent is known: octets are missing, the beginning is not in
	// the capture, or a frame could not be understood. Then rules about what must have come before are
	// silent.
	doubt      [2]bool
	was        [2]bool // doubt, before the event being judged
	lost       [2]bool // will be in doubt after the event being judged
	late       bool    // the capture holds no startup of this connection
	closed     [2]bool
	reset      bool    // by RST, from either side
	outOfOrder [2]bool // this direction has broken a rule about how segments follow each other
	ahead      [2]bool // the last segment of this direction whose MO was wrong left out octets of its message
	term       [2]bool // this direction has sent a Terminate
	ended      bool
	fpdus      [2]int // before the event being judged

	fold     folding
	messages Messages
	spoke    [2]bool // octets of this direction are in the capture
	strange  bool    // the message in progress touches memory whose offer the capture does not show

	recent []*Violation // with RoCE, those that may be taken back, at most maxRecent: see unsure
}

const maxRecent = 4096

// newMachines make the machines of a connection, in the order in which they see an event: from the lowest
// layer upwards.
var newMachines = []func(*conn) machine{
	func(c *conn) machine { return &startup{conn: c} },
	func(c *conn) machine { return &framing{conn: c} },
	func(c *conn) machine { return &markers{conn: c} },
	func(c *conn) machine { return &ending{conn: c} },
	func(c *conn) machine { return &headers{conn: c} },
	func(c *conn) machine { return &queues{conn: c} },
	func(c *conn) machine { return &lengths{conn: c} },
	func(c *conn) machine { c.reads = &reads{conn: c}; return c.reads },
	func(c *conn) machine { return &stags{conn: c} },
	func(c *conn) machine { return &terminates{conn: c} },
	newRPCMachine,
	newCommitMachine,
	func(c *conn) machine { return &accepts{conn: c} },
	func(c *conn) machine { return &resent{conn: c} },
}

// newPacketMachines are those for RoCE: what MPA, DDP and RDMAP say of octets is done there by the hardware, in another way.
var newPacketMachines = []func(*conn) machine{
	func(c *conn) machine { c.reads = &reads{conn: c}; return c.reads },
	func(c *conn) machine { return &stags{conn: c} },
	newRPCMachine,
}

func newConn(j *Judge, info *decode.ConnInfo) *conn {
	c := &conn{j: j, info: info}
	all := newMachines
	if info.Carrier != decode.CarrierTCP {
		all = newPacketMachines
	}
	for _, f := range all {
		c.machines = append(c.machines, f(c))
	}
	return c
}

// show shows an event to all machines.
func (c *conn) show(ev *decode.Event) {
	c.ev, c.found, c.was = ev, 0, c.doubt
	c.note(ev)
	c.fold.check(ev)
	for _, m := range c.machines {
		m.event(ev)
	}
	c.tally(ev)
	c.learn(ev)
	c.fold.settle(ev)
	c.last = decode.Event{Dir: ev.Dir, Frame: ev.Frame, Time: ev.Time, Offset: ev.Offset}
	c.ev = nil
	if c.closed[0] && c.closed[1] {
		c.finish()
	}
}

// note records, before the machines see an event, what the event puts in doubt.
func (c *conn) note(ev *decode.Event) {
	switch ev.Kind {
	case decode.KindUndecoded:
		c.doubt[ev.Dir] = true
		c.unsure(func(v *Violation) bool { return v.Frame > ev.First }) // what is missing came before them
	case decode.KindFPDU, decode.KindPacket:
		c.late = c.late || c.info.Unknown&decode.UnknownStartup != 0 || c.info.Request == nil || ev.RC != nil && c.info.Reply == nil
		if c.late {
			c.doubt = [2]bool{true, true}
		}
		if ev.FPDU != nil && ev.FPDU.CRCState == decode.CRCBad {
			c.doubt[ev.Dir] = true
		}
		if ev.RC != nil && ev.RC.Requests() {
			for _, v := range c.recent {
				v.unsure = v.unsure && v.Dir == ev.Dir
			}
		}
	case decode.KindClose:
		c.closed[ev.Dir] = true
		c.reset = c.reset || ev.Reset
	case decode.KindOpen, decode.KindStartup, decode.KindRecord:
	}
}

// unsure takes back the violations of a RoCE connection that may be none. No packet there says what its sender has received, as
// those of TCP do: that one is missing from the capture shows only in the number of the next one, or of an acknowledgement
// of it. So what compares a message with the packets of the other side is certain when the next of them has come.
func (c *conn) unsure(may func(*Violation) bool) {
	for _, v := range c.recent {
		if may(v) {
			c.withdraw(v)
		}
	}
}

// lose says that with the event being judged the rest of direction dir is in doubt.
func (c *conn) lose(dir decode.Dir) { c.lost[dir] = true }

// learn records, after the machines have seen an event, what it changes for later ones.
func (c *conn) learn(ev *decode.Event) {
	if ev.Kind == decode.KindFPDU || ev.Kind == decode.KindPacket {
		c.fpdus[ev.Dir]++
	}
	for dir, lost := range c.lost {
		c.doubt[dir] = c.doubt[dir] || lost
	}
}

// finish ends the connection. Calls after the first do nothing.
func (c *conn) finish() {
	if c.ended {
		return
	}
	c.ended = true
	c.ev, c.found = &c.last, 0
	for _, m := range c.machines {
		m.end()
	}
	c.unsure(func(v *Violation) bool { return v.unsure })
	c.machines, c.ev = nil, nil
	c.oneSided()
	if c.j.ended != nil {
		c.j.ended(c)
	}
}

// violate reports that the event being judged breaks the rule with the given ID.
func (c *conn) violate(id, format string, args ...any) *Violation {
	return c.violateBy(c.ev.Dir, id, format, args...)
}

// accuse is violate for an event in which no error has been found yet: one mistake is one violation.
func (c *conn) accuse(id, format string, args ...any) {
	if c.found == 0 {
		c.violate(id, format, args...)
	}
}

// violateBy is violate for a breach by the side that sends in direction dir.
func (c *conn) violateBy(dir decode.Dir, id, format string, args ...any) *Violation {
	return c.violateAfter(nil, dir, id, format, args...)
}

// violateAfter is violateBy for a breach of which the cause is known. Nil: it is not.
func (c *conn) violateAfter(cause *Violation, dir decode.Dir, id, format string, args ...any) *Violation {
	if rulesByID[id].Severity == Error {
		c.found++
	}
	v := &Violation{
		Rule: rulesByID[id], Conn: c.info, Dir: dir,
		Frame: c.ev.Frame, Time: c.ev.Time, Offset: c.ev.Offset, Detail: fmt.Sprintf(format, args...),
	}
	if cause != nil {
		v.Cause = cause.root()
	} else {
		v.Cause = c.cause(v)
	}
	switch id {
	case "DDP-005", "DDP-006", "DDP-007", "DDP-008", "DDP-011":
		c.outOfOrder[dir] = true
	}
	if c.ev.RC != nil {
		v.PSN = new(c.ev.RC.PSN)
	}
	if c.info.Carrier != decode.CarrierTCP {
		v.unsure = v.Rule.is(dependent)
		c.recent = append(c.recent[max(0, len(c.recent)-maxRecent):], v)
	}
	c.j.report(v)
	c.folded(v)
	return v
}
