package judge

import (
	"io"
	"net/netip"
	"time"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
)

// Verdict is what a [Report] amounts to.
type Verdict string

const (
	// Clean: all of the capture's iWARP and RoCE was judged, and no rule is broken; notes do not count.
	Clean Verdict = "clean"
	// Broken: a rule is broken, whatever else could not be judged.
	Broken Verdict = "violations"
	// Inconclusive: no rule is known to be broken, but a part of the capture, or all of it, could not be
	// judged; Report.Reasons says which.
	Inconclusive Verdict = "inconclusive"
)

// Report is what the judge found in one capture.
type Report struct {
	Verdict     Verdict
	Judged      int          // startup frames and FPDUs, or packets of RoCE, that the verdict rests on
	Reasons     []string     // why the capture, or parts of it, could not be judged, each without a full stop; none if all was
	Connections []Connection // those of MPA and RoCE, in order of appearance
	Violations  []Violation  // in the order of the capture; at most 100 of a rule in a connection
}

// Connection is what was judged of one connection.
type Connection struct {
	ID               int            // from 1, in order of appearance in the capture, as Violation.Connection
	Opener, Accepter netip.AddrPort // who opened the TCP connection or, if that is not in the capture, spoke first; and the other side
	Counts           map[string]int // violations by Rule.ID, also those that Report.Violations leaves out
}

// Violation is one breach of one rule.
type Violation struct {
	Rule         Rule
	Connection   int       // Connection.ID
	FromOpener   bool      // who broke it
	Frame        int       // packet that shows it, from 1; the last one for violations that show only at the end
	Time         time.Time // of that packet
	Offset       uint64    // of the first octet concerned, in the stream of that side
	Detail       string    // what was found, and what was expected
	Consequences int       // how many further violations followed from it
	text         string
}

// String returns "DDP-005 conn 1 > frame 17: MSN 4 on queue 0, expected 3".
func (v Violation) String() string { return v.text }

// Rule is one rule that a trace can break.
type Rule struct {
	ID       string // "DDP-005": layer and number; never reused
	Source   string // "RFC 5041 Section 5.3"
	Level    string // "MUST" or "SHOULD"
	Severity string // "error": the peer may refuse it; "warning": the peer can live with it; "note": worth knowing, a report of notes is clean
	Text     string // one sentence: what must hold
	Quote    string // the words of the source
}

// Rules returns all rules, those of the lowest layer first, in the order of their numbers.
func Rules() (all []Rule) {
	for _, r := range judge.Rules() {
		all = append(all, ruleOf(r))
	}
	return all
}

// File judges a whole capture, pcap or pcapng, until r ends. An error, r's or of a file that is no capture or a
// damaged one, comes with the report of what was read before it.
func File(r io.Reader) (*Report, error) {
	in, err := judge.File(r, nil)
	return reportOf(in), err
}

func reportOf(in *judge.Report) *Report {
	r := &Report{Verdict: Verdict(in.Verdict().String()), Judged: in.Judged(), Reasons: in.Reasons()}
	for _, c := range in.Connections {
		r.Connections = append(r.Connections, Connection{c.Info.ID, c.Info.Opener, c.Info.Accepter, c.Counts})
	}
	for _, v := range in.Violations {
		r.Violations = append(r.Violations, Violation{
			Rule: ruleOf(v.Rule), Connection: v.Conn.ID, FromOpener: v.Dir == decode.FromOpener, Frame: v.Frame,
			Time: v.Time, Offset: v.Offset, Detail: v.Detail, Consequences: v.Folded, text: v.String(),
		})
	}
	return r
}

func ruleOf(r *judge.Rule) Rule {
	return Rule{r.ID, r.Source, r.Level.String(), r.Severity.String(), r.Text, r.Quote()}
}
