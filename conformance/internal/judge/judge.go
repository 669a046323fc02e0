package judge

import (
	"slices"

	"github.com/stag-rdma/stag/conformance/internal/decode"
)

// A Judge judges the connections of one capture. See [New].
type Judge struct {
	opt    Options
	report func(*Violation)
	ended  func(*conn)      // of each connection, in the end; may be nil
	refold func(*Violation) // a violation that was reported before has a cause now; may be nil

	withdrawn func(*Violation) // one that was reported before is none; may be nil
	conns     map[*decode.ConnInfo]*conn
	order     []*conn // oldest first; may hold connections that have ended
	sweep     int     // connections to have before those are forgotten of which nothing comes any more
	sent      sentCalls

	tooLong uint64 // from how many octets a message is too long: 2^32, except in tests
}

// New returns a judge that calls report for every violation, in the order of the events that show them;
// those with a Cause are consequences. Nil options mean the defaults. It panics with the error of opt.Check.
func New(opt *Options, report func(*Violation)) *Judge {
	return &Judge{
		opt: opt.withDefaults(), report: report, conns: make(map[*decode.ConnInfo]*conn),
		tooLong: 1 << 32,
	}
}

// Event takes the next event of the capture. It borrows ev.
func (j *Judge) Event(ev *decode.Event) {
	c := j.conns[ev.Conn]
	if c == nil {
		c = j.open(ev.Conn)
	}
	if !c.ended {
		c.show(ev)
	}
}

// End ends the capture: violations that show only at the end of a connection are reported for those that are
// still open.
func (j *Judge) End() {
	for _, c := range j.order {
		c.finish()
	}
	j.order = nil
	clear(j.conns)
}

// open begins a connection.
func (j *Judge) open(info *decode.ConnInfo) *conn {
	c := newConn(j, info)
	j.conns[info] = c
	j.order = append(j.order, c)
	if len(j.order) > j.sweep { // the decoder bounds those that are not over
		j.order = slices.DeleteFunc(j.order, func(c *conn) bool {
			if c.info.Over {
				c.finish()
				delete(j.conns, c.info)
			}
			return c.info.Over
		})
		j.sweep = len(j.order) + len(j.order)/8 + 64
	}
	return c
}
