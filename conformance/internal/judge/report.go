package judge

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

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
// what was read before it.
func File(r io.Reader, opt *Options) (*Report, error) {
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

// Expect holds the rules that a capture is known to break. Peers deviate; an expectation beside the capture
// documents that, with the reason.
//
// It has one line per rule and connection, with the number of violations; the text after # says why.
//
//	RPCRDMA-073 1 3   # knfsd invalidates although its R flag is 0
//
// For captures that differ each time, "RPCRDMA-073 * *" allows any number, including none, in any
// connection.
type Expect struct {
	counts map[ruleOfConn]int
	any    map[string]bool // by rule
}

// ruleOfConn is a rule and the number of a connection in its capture, from 1.
type ruleOfConn struct {
	id   string
	conn int
}

// ExpectError is a line that is not an expectation.
type ExpectError struct {
	Line   int    // from 1
	Reason string // what is wrong with it
}

// Error returns "line 3: no rule DDP-999 (conformance judge --explain all lists them)".
func (e *ExpectError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// ParseExpect reads expectations until r ends. The error is r's, or an *[ExpectError].
func ParseExpect(r io.Reader) (*Expect, error) {
	e := &Expect{counts: make(map[ruleOfConn]int), any: make(map[string]bool)}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if fields := strings.Fields(text); len(fields) > 0 {
			if reason := e.add(fields); reason != "" {
				return nil, &ExpectError{n, reason}
			}
		}
	}
	return e, lines.Err()
}

// add takes the fields of a line. It returns what is wrong with them, or "".
func (e *Expect) add(fields []string) string {
	if len(fields) != 3 {
		return fmt.Sprintf("%d fields: want rule, connection and count", len(fields))
	}
	if _, ok := Find(fields[0]); !ok {
		return fmt.Sprintf("no rule %s (conformance judge --explain all lists them)", fields[0])
	}
	if fields[1] == "*" && fields[2] == "*" {
		e.any[fields[0]] = true
		return ""
	}
	conn, err1 := strconv.Atoi(fields[1])
	count, err2 := strconv.Atoi(fields[2])
	if err1 != nil || err2 != nil || conn < 1 || count < 1 {
		return "connection and count are numbers from 1, or both *"
	}
	key := ruleOfConn{fields[0], conn}
	if e.counts[key] > 0 {
		return fmt.Sprintf("%s of connection %d a second time", fields[0], conn)
	}
	e.counts[key] = count
	return ""
}

// Diff returns the differences between a report and what was expected, one line each, by connection and
// rule.
func (e *Expect) Diff(r *Report) (lines []string) {
	found := r.counts()
	all := maps.Clone(found)
	maps.Copy(all, e.counts)
	for _, k := range sorted(all) {
		if got, want := found[k], e.counts[k]; got != want && (want > 0 || !e.any[k.id]) {
			lines = append(lines, fmt.Sprintf("%s connection %d: %d found, %d expected", k.id, k.conn, got, want))
		}
	}
	return lines
}

// counts returns the violations by rule and connection.
func (r *Report) counts() map[ruleOfConn]int {
	m := make(map[ruleOfConn]int)
	for _, c := range r.Connections {
		for id, n := range c.Counts {
			m[ruleOfConn{id, c.Info.ID}] += n
		}
	}
	return m
}

// sorted returns the keys by connection, then rule.
func sorted(m map[ruleOfConn]int) []ruleOfConn {
	return slices.SortedFunc(maps.Keys(m), func(a, b ruleOfConn) int {
		return cmp.Or(cmp.Compare(a.conn, b.conn), cmp.Compare(a.id, b.id))
	})
}
