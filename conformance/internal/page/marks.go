package page

import (
	"fmt"
	"slices"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
)

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
