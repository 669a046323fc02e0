package judge

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/conformance/internal/decode"
)

// Report is what the judge found in one capture.
type Report struct {
	Connections []*ConnReport // those of MPA and RoCE, in order of appearance
	Violations  []*Violation  // in the order of the capture, without consequences; at most [Options.MaxViolations] per connection and rule
	Stats       decode.CaptureStats

	// Beyond is how many connections were not judged, because there were too many before them.
	Beyond int
	// Encrypted counts the connections within TLS, of which nothing can be judged.
	Encrypted int
}

// ConnReport is what the judge found in one connection.
type ConnReport struct {
	Info     *decode.ConnInfo
	Startups int            // MPA Requests and Replies; with RoCE, REQ and REP
	FPDUs    [2]int         // by direction; with RoCE, packets
	Octets   [2]uint64      // of the streams, by direction
	Messages Messages       // how many were judged, and why others only in part
	Counts   map[string]int // violations by rule ID, including those not kept, without consequences
	// Unknown says what the capture does not show, and what was not decoded and why, each without a full
	// stop.
	Unknown []string

	encrypted   bool
	lost, holes int // octets that holes have made useless, and in how many places
}

// File judges a whole capture, pcap or pcapng. An error, as from [decode.Events], comes with the report of
// what was read before it. For options out of range there is no report.
func File(r io.Reader, opt *Options) (*Report, error) {
	if err := opt.Check(); err != nil {
		return nil, err
	}
	o := opt.withDefaults()
	b := newBuilder(&o)
	c := decode.NewCapture(o.Decode, b.Event)
	var failed error
	for pkt, err := range decode.Packets(r) {
		if failed = err; err != nil {
			break
		}
		c.Packet(&pkt)
	}
	c.Finish()
	rep := b.Report()
	rep.Stats = c.Stats
	return rep, failed
}

// A Builder makes a [Report] from events that do not come from a file, or that others need to see too.
type Builder struct {
	opt   *Options
	judge *Judge
	rep   Report
	conns map[*decode.ConnInfo]*ConnReport
	full  bool // there are maxReported: none is added any more, not even in its middle
	kept  int  // violations and sentences
}

const (
	maxReported = 1 << 15 // connections of a report
	maxKept     = 1 << 15 // violations, their consequences, and sentences, of a report, beyond the first sentence of each connection
)

// NewBuilder returns a Builder. Nil options mean the defaults. It panics with the error of opt.Check.
func NewBuilder(opt *Options) *Builder {
	o := opt.withDefaults()
	return newBuilder(&o)
}

func newBuilder(o *Options) *Builder {
	b := &Builder{opt: o, conns: make(map[*decode.ConnInfo]*ConnReport)}
	b.judge = New(o, b.violation)
	b.judge.refold, b.judge.withdrawn = b.refold, b.withdrawn
	b.judge.ended = func(c *conn) {
		if c.info.Foreign {
			delete(b.conns, c.info)
			return
		}
		b.conn(c.info).Messages = c.messages
	}
	return b
}

// Event takes the next event. It borrows ev.
func (b *Builder) Event(ev *decode.Event) {
	if b.full && b.conns[ev.Conn] == nil {
		if ev.Kind == decode.KindOpen {
			b.rep.Beyond++
		}
		return
	}
	c := b.conn(ev.Conn)
	switch ev.Kind {
	case decode.KindFPDU, decode.KindPacket:
		c.FPDUs[ev.Dir]++
		if errors.Is(ev.Err, chunks.ErrTooLarge) || errors.Is(ev.Err, chunks.ErrTooMany) {
			b.unknown(c, fmt.Sprintf("frame %d %v: its chunks, and what follows it: %v", ev.Frame, ev.Dir, ev.Err))
		}
	case decode.KindUndecoded:
		switch {
		case errors.Is(ev.Err, decode.ErrEncrypted):
			if !c.encrypted { // each side says it
				c.encrypted = true
				b.rep.Encrypted++
			}
		case ev.Conn.Foreign, ev.Len+ev.Missing == 0 && ev.Again == nil && ev.Conn.Carrier == decode.CarrierTCP: // the latter is about octets of before
		case errors.Is(ev.Err, decode.ErrHole), errors.Is(ev.Err, decode.ErrPartial) && ev.Conn.Unknown&decode.UnknownTruncated != 0:
			c.lost += ev.Len + ev.Missing
			c.holes++
		default:
			b.unknown(c, fmt.Sprintf("frame %d %v: %d octets not decoded: %v", ev.Frame, ev.Dir, ev.Len+ev.Missing, ev.Err))
		}
	case decode.KindStartup:
		c.Startups++
	case decode.KindOpen, decode.KindClose, decode.KindRecord:
	}
	c.Octets[ev.Dir] += uint64(ev.Len)
	b.judge.Event(ev)
}

// Report ends the judgement and returns it. The Builder must not be used after it.
func (b *Builder) Report() *Report {
	b.judge.End()
	for _, c := range b.conns {
		if !c.Info.Foreign {
			b.rep.Connections = append(b.rep.Connections, c)
		}
	}
	slices.SortFunc(b.rep.Connections, func(a, c *ConnReport) int { return a.Info.ID - c.Info.ID })
	for _, c := range b.rep.Connections {
		why := append(c.Info.Unknown.Reasons(), c.Messages.Reasons()...)
		if c.Info.Request != nil && c.Info.Reply == nil && c.Info.Carrier == decode.CarrierTCP {
			why = append(why, "the MPA Request has no Reply in the capture: nothing after it was judged")
		}
		if c.holes > 0 && c.Info.Carrier != decode.CarrierTCP {
			why = append(why, fmt.Sprintf("packets are missing from the capture, or cut, in %d places", c.holes))
		} else if c.holes > 0 {
			why = append(why, fmt.Sprintf("%d octets not decoded, in %d places: octets before them or among them are missing from the capture", c.lost, c.holes))
		}
		c.Unknown = append(why, c.Unknown...)
	}
	b.rep.Violations = slices.DeleteFunc(b.rep.Violations, func(v *Violation) bool { return v.Conn.Foreign })
	return &b.rep
}

// maxUnknown bounds the sentences about octets of a connection that were not decoded.
const maxUnknown = 16

// unknown adds a sentence, once.
func (b *Builder) unknown(c *ConnReport, s string) {
	if len(c.Unknown) < maxUnknown && !slices.Contains(c.Unknown, s) && (b.keep() || len(c.Unknown) == 0) {
		c.Unknown = append(c.Unknown, s)
	}
}

func (b *Builder) conn(info *decode.ConnInfo) *ConnReport {
	c := b.conns[info]
	if c == nil {
		c = &ConnReport{Info: info, Counts: make(map[string]int)}
		b.conns[info] = c
		b.full = b.full || len(b.conns) >= maxReported
	}
	return c
}

func (b *Builder) violation(v *Violation) {
	if v.Cause != nil {
		b.fold(v.Cause, v)
		return
	}
	c := b.conn(v.Conn)
	if c.Counts[v.Rule.ID]++; c.Counts[v.Rule.ID] <= b.opt.MaxViolations && b.keep() {
		b.rep.Violations = append(b.rep.Violations, v)
	}
}

// refold moves a violation, and its consequences, below its cause.
func (b *Builder) refold(v *Violation) {
	b.remove(v)
	b.fold(v.Cause, v)
	for _, u := range v.Consequences {
		u.Cause = v.Cause
		b.fold(v.Cause, u)
	}
	v.Cause.Folded += v.Folded - len(v.Consequences)
	v.Consequences, v.Folded = nil, 0
}

// remove takes a mistake out of the report.
func (b *Builder) remove(v *Violation) {
	c := b.conn(v.Conn)
	if c.Counts[v.Rule.ID]--; c.Counts[v.Rule.ID] == 0 {
		delete(c.Counts, v.Rule.ID)
	}
	b.rep.Violations = slices.DeleteFunc(b.rep.Violations, func(u *Violation) bool { return u == v })
}

// maxFolded bounds the consequences that are kept of one violation.
const maxFolded = 100

// keep reports whether the report may keep one more.
func (b *Builder) keep() bool {
	b.kept++
	return b.kept <= maxKept
}

// fold enters u as a consequence of v.
func (b *Builder) fold(v, u *Violation) {
	if v.Folded++; len(v.Consequences) < maxFolded && b.keep() {
		v.Consequences = append(v.Consequences, u)
	}
}
