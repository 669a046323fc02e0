// Package judge says which rules of the RFCs a captured connection of iWARP or RoCE breaks: MPA (RFC 5044, RFC 6581),
// DDP (RFC 5041), RDMAP (RFC 5040, RFC 7306, the commit draft), RPC-over-RDMA (RFC 5666, RFC 8166, RFC
// 8797), and the protocols above.
//
// Package [github.com/stag-rdma/stag/conformance/internal/decode] says what is there; this one says whether it is
// allowed. Each rule has an ID whose meaning never changes, the RFC section from which it comes, and one
// sentence: see [Rules]. [Sentences] goes the other way: from the sentences of the documents to the rules
// that judge them, or to the reason why a trace cannot show them.
//
// # Model
//
// A [Judge] takes the events of one capture in order. Each connection has a handful of small machines,
// one per concern (startup, queues, reads, terminates, ...), in the file of its layer; every event
// goes through all of them, the lowest layer first. A frame that a lower layer has found
// to break a rule is not judged by the ones above it, so that one mistake is one violation.
//
// A judge reports only what the capture proves. What the capture lacks (missing octets, a beginning that was
// not recorded, a frame with a bad CRC) puts the direction in doubt, and from then on rules that need the
// whole past of a direction are silent. [Report] says so.
//
// # Bounds
//
// Memory per connection is bounded: 64 KiB for the headers a Terminate may quote, 4096 unanswered RPC calls and
// 16384 segments of their chunks per direction, 4096 records of a commit log after its tail, and what [Options] says.
// Nothing here reads a clock, and nothing is safe for concurrent use; separate captures may be
// judged in separate goroutines.
package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"

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

// Options limits what a judge remembers. The zero value, and a nil *Options, mean the defaults.
type Options struct {
	// Decode is for the decoder below; used by [File].
	Decode *decode.Options

	// MaxViolations bounds the violations that a [Report] keeps per connection and rule; further ones are
	// only counted. If zero, 100.
	MaxViolations int

	// MaxSTags bounds the STags remembered per connection and direction, in STags. If zero, 4096. The
	// oldest is forgotten first.
	MaxSTags int

	// MaxRequests bounds the requests remembered per connection and direction while they are not answered,
	// in requests. If zero, 16384, more than an IRD can be.
	MaxRequests int
}

// withDefaults returns a copy of o with the zero fields filled in.
func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	c.MaxViolations = cmp.Or(c.MaxViolations, 100)
	c.MaxSTags = cmp.Or(c.MaxSTags, 4096)
	c.MaxRequests = cmp.Or(c.MaxRequests, 1<<14)
	return c
}

// Violation is one breach of one rule.
type Violation struct {
	Rule   *Rule
	Conn   *decode.ConnInfo // the decoder's; complete once the capture has been read
	Dir    decode.Dir       // who broke the rule
	Frame  int              // packet that shows it, from 1; the last one for violations that show only at the end
	Time   time.Time        // of that packet
	Offset uint64           // of the event's first octet in the stream of Dir
	PSN    *uint32          // of a packet of RoCE; nil: the violation is not in one
	Detail string           // what was found, and what was expected

	// Cause is the mistake of which this is a consequence; nil: it is a mistake of its own. It is certain
	// only once the capture has been judged.
	Cause *Violation
	// Consequences are the violations of which this is the cause, the first 100 of them, and Folded says how many
	// there were. Only a [Report] has them.
	Consequences []*Violation
	Folded       int

	// Withdrawn: the octets were sent again, with other contents that are right, and which of them the receiver took is
	// unknown; or packets before it turn out to be missing. A [Report] has no such violations.
	Withdrawn bool

	unsure   bool       // with RoCE: whether no packet before it is missing is not known yet
	accepted *Violation // of the receiver that has carried on
}

// String returns "DDP-005 conn 1 > frame 17: MSN 4 on queue 0, expected 3".
func (v *Violation) String() string {
	return fmt.Sprintf("%s conn %d %v frame %d: %s", v.Rule.ID, v.Conn.ID, v.Dir, v.Frame, v.Detail)
}

// Verdict is what a [Report] amounts to.
type Verdict uint8

const (
	// Clean: all of the capture's iWARP and RoCE was judged, and no rule is broken; notes do not count.
	Clean Verdict = iota
	// Violations: a rule is broken, whatever else could not be judged.
	Violations
	// Inconclusive: no rule is known to be broken, but a part of the capture, or all of it, could not be
	// judged; [Report.Reasons] says which.
	Inconclusive
)

// String returns "clean", "violations" or "inconclusive".
func (v Verdict) String() string { return [...]string{"clean", "violations", "inconclusive"}[v] }

// Verdict returns what the report amounts to.
func (r *Report) Verdict() Verdict {
	for _, c := range r.Connections {
		for id := range c.Counts {
			if rulesByID[id].Severity != Note {
				return Violations
			}
		}
	}
	if len(r.Reasons()) > 0 {
		return Inconclusive
	}
	return Clean
}

// Judged returns how many MPA startup frames and FPDUs, or messages of connection managers and packets of RoCE, the verdict rests on.
func (r *Report) Judged() (frames int) {
	for _, c := range r.Connections {
		frames += c.Startups + c.FPDUs[0] + c.FPDUs[1]
	}
	return frames
}

// Reasons returns why the capture, or parts of it, could not be judged, each without a full stop; none if
// all of it was. It is about the file as a whole first, then about each connection in order.
func (r *Report) Reasons() []string {
	all := carriers(&r.Stats)
	if r.Beyond > 0 {
		all = append(all, fmt.Sprintf("%d connections began after %d others: none of them was judged", r.Beyond, len(r.Connections)))
	}
	if r.Judged() == 0 {
		all = append(all, nothing(&r.Stats, r.Encrypted))
	}
	for _, c := range r.Connections {
		for _, s := range c.Unknown {
			all = append(all, fmt.Sprintf("connection %d: unknown: %s", c.Info.ID, s))
		}
	}
	return all
}

// nothing says why no frame was judged.
func nothing(s *decode.CaptureStats, encrypted int) string {
	switch {
	case s.Packets == 0:
		return "the capture holds no packet"
	case s.TCP == 0 && s.Fragments > 0:
		return "the capture holds no TCP, and fragments of IP datagrams of which others are missing, overlap or are cut off"
	case s.RoCE > 0:
		return "no connection of RoCE in the capture shows more than datagrams"
	case s.TCP == 0:
		return "the capture holds no TCP, so no iWARP, and no RoCE"
	case encrypted > 0:
		return fmt.Sprintf("no TCP connection of the capture shows an MPA frame; %d of %d are within TLS, and what is encrypted is not judged", encrypted, s.Connections)
	}
	return "no TCP connection of the capture shows an MPA frame"
}

// carriers names the RDMA of the capture that is not judged.
func carriers(s *decode.CaptureStats) (all []string) {
	for _, c := range []struct {
		n    int
		what string
	}{
		{s.Stray, "RoCE or InfiniBand, but not of a reliable connection of which both sides are known"},
		{s.Unread, fmt.Sprintf("link type %d, which is not read", s.UnreadLink)},
	} {
		if c.n > 0 {
			all = append(all, fmt.Sprintf("%d of %d packets are of %s", c.n, s.Packets, c.what))
		}
	}
	return all
}
