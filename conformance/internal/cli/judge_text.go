package cli

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
)

// shownOfAKind is how many violations of one rule on one connection are printed without --all.
const shownOfAKind = 10

// text prints a verdict for a reader.
func (f *judgeFlags) text(w io.Writer, v *verdict, many bool) error {
	out := bufio.NewWriter(w)
	if many {
		fmt.Fprintf(out, "== %s\n", v.name)
	}
	if v.err != nil && v.report.Stats.Packets == 0 { // the error says it all
		return out.Flush()
	}
	byConn := make(map[*decode.ConnInfo][]*judge.Violation)
	for _, x := range v.report.Violations {
		byConn[x.Conn] = append(byConn[x.Conn], x)
	}
	for _, c := range v.report.Connections {
		connText(out, c)
		f.violationsText(out, c, byConn[c.Info])
		for _, s := range c.Unknown {
			fmt.Fprintf(out, "  unknown: %s\n", s)
		}
	}
	for _, s := range v.report.Reasons() {
		if !strings.HasPrefix(s, "connection ") { // those are said above
			fmt.Fprintf(out, "not judged: %s\n", s)
		}
	}
	fmt.Fprintln(out, sumText(v.report, v.err))
	if f.expect != "" {
		diffText(out, f.expect, v.diff)
	}
	return out.Flush()
}

// connText prints who talked to whom, and what.
func connText(w io.Writer, c *judge.ConnReport) {
	fmt.Fprintf(w, "connection %d: %v > %v, %s\n", c.Info.ID, c.Info.Opener, c.Info.Accepter, strings.Join(kindText(c), ", "))
	unit := "FPDUs"
	if c.Info.Carrier != decode.CarrierTCP {
		unit = "packets"
	}
	fmt.Fprintf(w, "  > %d %s, %d octets; < %d %s, %d octets\n", c.FPDUs[0], unit, c.Octets[0], c.FPDUs[1], unit, c.Octets[1])
}

func kindText(c *judge.ConnReport) []string {
	info := c.Info
	kind := []string{"iWARP"}
	if info.Carrier != decode.CarrierTCP {
		kind[0] = info.Carrier.String()
	}
	if info.ULP == decode.ULPRPCRDMA {
		kind[0] = "RPC-over-RDMA"
	}
	if info.Carrier != decode.CarrierTCP {
		return append(kind, managerText(info)...)
	}
	switch r := info.Reply; {
	case c.Octets == [2]uint64{}:
		return []string{"no octets"}
	case info.Request == nil:
		return append(kind, "startup not seen")
	case r == nil:
		return append(kind, fmt.Sprintf("MPA revision %d, no Reply", info.Request.Rev))
	case r.Rejected:
		kind = append(kind, fmt.Sprintf("MPA revision %d, rejected", r.Rev))
	case r.Enhanced:
		kind = append(kind, fmt.Sprintf("MPA revision %d, Reply with IRD %d and ORD %d", r.Rev, r.Word.IRD, r.Word.ORD))
	default:
		kind = append(kind, fmt.Sprintf("MPA revision %d", r.Rev))
	}
	if info.CRC {
		kind = append(kind, "CRC")
	}
	return kind
}

// managerText says what the connection manager of a RoCE connection has settled.
func managerText(info *decode.ConnInfo) (s []string) {
	if info.ULP == decode.ULPRPCRDMA {
		s = append(s, info.Carrier.String())
	}
	switch r := info.Reply; {
	case info.Request == nil:
		return append(s, "startup not seen")
	case r == nil:
		return append(s, "no REP")
	case r.Rejected:
		return append(s, "rejected")
	default:
		return append(s, fmt.Sprintf("REP with IRD %d and ORD %d", r.Word.IRD, r.Word.ORD))
	}
}

// violationsText prints the violations of a connection by rule, in the order of the rules.
func (f *judgeFlags) violationsText(w io.Writer, c *judge.ConnReport, found []*judge.Violation) {
	for _, r := range judge.Rules() {
		n := c.Counts[r.ID]
		if n == 0 {
			continue
		}
		fmt.Fprintf(w, "  %s %v %v, %s: %s\n", r.ID, r.Severity, r.Level, r.Source, r.Text)
		shown := 0
		for _, v := range found {
			if v.Rule == r && (f.all || shown < shownOfAKind) {
				where := fmt.Sprintf("offset %d", v.Offset)
				if v.PSN != nil {
					where = fmt.Sprintf("psn %d", *v.PSN)
				}
				fmt.Fprintf(w, "    frame %d %v %s: %s\n", v.Frame, v.Dir, where, v.Detail)
				consequencesText(w, v, f.all)
				shown++
			}
		}
		if n > shown {
			fmt.Fprintf(w, "    and %d more\n", n-shown)
		}
	}
}

// consequencesText prints what followed from a violation: how often each rule, or with all each of those kept.
func consequencesText(w io.Writer, v *judge.Violation, all bool) {
	if v.Folded == 0 {
		return
	}
	rules := make(map[string]int)
	for _, u := range v.Consequences {
		rules[u.Rule.ID]++
	}
	var s []string
	for _, id := range slices.Sorted(maps.Keys(rules)) {
		s = append(s, fmt.Sprintf("%s %d", id, rules[id]))
	}
	if more := v.Folded - len(v.Consequences); more > 0 {
		s = append(s, fmt.Sprintf("and %d more", more))
	}
	fmt.Fprintf(w, "      %s: %s\n", plural(v.Folded, "consequence"), strings.Join(s, ", "))
	if all {
		for _, u := range v.Consequences {
			fmt.Fprintf(w, "        %s frame %d %v: %s\n", u.Rule.ID, u.Frame, u.Dir, u.Detail)
		}
	}
}

// sumText returns the last line. err says why the capture was not read to its end.
func sumText(r *judge.Report, err error) string {
	broken := 0
	for _, c := range r.Connections {
		for _, n := range c.Counts {
			broken += n
		}
	}
	var what string
	switch v := r.Verdict(); {
	case v == judge.Violations:
		what = plural(broken, "violation")
	case err != nil:
		what = "unreadable, nothing found before that"
	case v == judge.Inconclusive:
		what = "inconclusive, " + plural(r.Judged(), "frame") + " judged"
	case broken > 0:
		what = plural(broken, "note") + ", clean but for notes"
	default:
		what = "clean"
	}
	others := ""
	if n := r.Stats.Connections - len(r.Connections) - r.Beyond; n > 0 {
		others = fmt.Sprintf(" and %d that are not RDMA", n)
		if r.Encrypted > 0 {
			others += fmt.Sprintf(" (%d within TLS)", r.Encrypted)
		}
	}
	return fmt.Sprintf("%s, %s%s: %s", plural(r.Stats.Packets, "packet"), plural(len(r.Connections), "connection"), others, what)
}

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

func diffText(w io.Writer, name string, diff []string) {
	if len(diff) == 0 {
		fmt.Fprintf(w, "as %s expects\n", name)
		return
	}
	fmt.Fprintf(w, "not as %s expects:\n", name)
	for _, line := range diff {
		fmt.Fprintln(w, "  "+line)
	}
}

// explain prints a rule, or the list of all rules.
func explain(w io.Writer, id string) error {
	if id == "all" || id == "list" {
		for _, r := range judge.Rules() {
			fmt.Fprintf(w, "%-11s %-6v %-7v %s: %s\n", r.ID, r.Level, r.Severity, r.Source, r.Text)
		}
		return nil
	}
	r, ok := judge.Find(strings.ToUpper(id))
	if !ok {
		return usagef("--explain %s: no such rule%s; --explain all lists them", id, resembling(id))
	}
	fmt.Fprintf(w, "%s: %s\n\n", r.ID, r.Text)
	fmt.Fprintf(w, "source    %s\nsays      %s\nlevel     %v\nseverity  %v: %s\n", r.Source, r.Quote(), r.Level, r.Severity, severityText[r.Severity])
	for _, doc := range judge.Documents() {
		for _, s := range judge.Sentences(doc) {
			if slices.Contains(s.Rules, r.ID) {
				fmt.Fprintf(w, "judges    %s %s: %s\n", doc, s.Section, s.Says)
			}
		}
	}
	if sample := r.Sample(); sample != "" {
		fmt.Fprintf(w, "its twin  %s\n", sample)
	}
	fmt.Fprintf(w, "\nThe twin is a good trace with one thing changed, which breaks this rule alone; in a checkout of stag:\n"+
		"go test ./conformance/internal/judge -run 'TestTwins/%s' -v\n", r.ID)
	return nil
}

// severityText returns what a severity means.
var severityText = map[judge.Severity]string{
	judge.Error:   "the peer may, or must, refuse it",
	judge.Warning: "wrong, but the peer is told to ignore it, or can live with it",
	judge.Note:    "worth knowing; does not count as a violation",
}

// resembling names the rules of the layer to which id may refer.
func resembling(id string) string {
	layer, _, _ := strings.Cut(strings.ToUpper(id), "-")
	var ids []string
	for _, r := range judge.Rules() {
		if r.Layer() == layer {
			ids = append(ids, r.ID)
		}
	}
	if ids == nil {
		return ""
	}
	return fmt.Sprintf(" (%s has %s to %s)", layer, ids[0], ids[len(ids)-1])
}
