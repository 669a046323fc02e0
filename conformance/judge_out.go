package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

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

// jsonVersion is the version of the format below (docs/conformance.md). Within a version fields may be added;
// nothing else changes.
const jsonVersion = 2

type jsonVerdicts struct {
	Version  int                 `json:"version"`
	Clean    bool                `json:"clean"` // all captures
	Captures []jsonCapture       `json:"captures"`
	Rules    map[string]jsonRule `json:"rules"` // those that are broken
}

type jsonCapture struct {
	File           string          `json:"file"`
	Error          string          `json:"error,omitempty"`
	Clean          bool            `json:"clean"`
	Verdict        string          `json:"verdict"`    // clean, violations, inconclusive
	Judged         int             `json:"judged"`     // MPA startup frames and FPDUs
	NotJudged      []string        `json:"not_judged"` // what was not judged, and why
	Packets        int             `json:"packets"`
	TCPConnections int             `json:"tcp_connections"` // MPA or not
	Connections    []jsonConn      `json:"connections"`
	Violations     []jsonViolation `json:"violations"`
	Unexpected     []string        `json:"unexpected,omitempty"` // with --expect: the differences
}

type jsonConn struct {
	ID         int              `json:"id"`
	Opener     string           `json:"opener"`
	Accepter   string           `json:"accepter"`
	Initiator  string           `json:"initiator,omitempty"` // of MPA
	Protocol   string           `json:"protocol"`            // iwarp, rpcrdma, roce
	Carrier    string           `json:"carrier"`             // tcp, rocev2, rocev1, infiniband
	Startup    string           `json:"startup"`             // done, rejected, unanswered, unseen
	Revision   *uint8           `json:"mpa_revision,omitempty"`
	CRC        bool             `json:"crc"`
	FPDUs      jsonBoth[int]    `json:"fpdus"`
	Octets     jsonBoth[uint64] `json:"octets"`
	Messages   jsonMessages     `json:"messages"`
	Violations map[string]int   `json:"violations"` // by rule, including those not listed
	Unknown    []string         `json:"unknown"`
}

// jsonBoth is a value for each side.
type jsonBoth[T any] struct {
	Opener   T `json:"opener"`
	Accepter T `json:"accepter"`
}

// jsonMessages counts RDMAP messages.
type jsonMessages struct {
	Judged int            `json:"judged"` // by every rule
	Partly map[string]int `json:"partly"` // by what keeps some rules silent
}

// gapNames are the names of the gaps in the output.
var gapNames = map[judge.Gap]string{
	judge.UnknownSTag: "unknown_stag", judge.NoStart: "no_start", judge.OneSide: "one_side",
	judge.Truncated: "truncated", judge.Lost: "missing", judge.Damaged: "damaged", judge.Protected: "rpcsec_gss",
}

type jsonViolation struct {
	Rule       string  `json:"rule"`
	Connection int     `json:"connection"`
	From       string  `json:"from"` // who broke it: opener, accepter
	Frame      int     `json:"frame"`
	Time       string  `json:"time,omitempty"`
	Offset     uint64  `json:"offset"` // in the stream of that side
	PSN        *uint32 `json:"psn,omitempty"`
	Detail     string  `json:"detail"`

	Consequences *jsonConsequences `json:"consequences,omitempty"`
}

// jsonConsequences are what followed from a violation.
type jsonConsequences struct {
	Count int             `json:"count"`
	First []jsonViolation `json:"first"` // at most 100
}

type jsonRule struct {
	Source   string `json:"source"`
	Level    string `json:"level"`
	Severity string `json:"severity"`
	Text     string `json:"text"`
	Quote    string `json:"quote"` // the words of the document
}

// writeJSON prints verdicts for a program.
func writeJSON(w io.Writer, all []*verdict) error {
	j := jsonVerdicts{Version: jsonVersion, Clean: true, Captures: []jsonCapture{}, Rules: make(map[string]jsonRule)}
	for _, v := range all {
		j.Captures = append(j.Captures, v.json())
		j.Clean = j.Clean && v.err == nil && v.report.Verdict() == judge.Clean
		for _, c := range v.report.Connections {
			for id := range c.Counts {
				if r, ok := judge.Find(id); ok {
					j.Rules[id] = jsonRule{r.Source, r.Level.String(), r.Severity.String(), r.Text, r.Quote()}
				}
			}
		}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(&j)
}

func (v *verdict) json() jsonCapture {
	r := v.report
	j := jsonCapture{
		File: v.name, Clean: v.err == nil && r.Verdict() == judge.Clean, Verdict: r.Verdict().String(),
		Judged: r.Judged(), NotJudged: append([]string{}, r.Reasons()...), Packets: r.Stats.Packets, TCPConnections: r.Stats.Connections,
		Connections: []jsonConn{}, Violations: []jsonViolation{}, Unexpected: v.diff,
	}
	if v.err != nil {
		j.Error = v.err.Error()
	}
	for _, c := range r.Connections {
		j.Connections = append(j.Connections, jsonConnOf(c))
	}
	for _, x := range r.Violations {
		j.Violations = append(j.Violations, jsonViolationOf(x))
	}
	return j
}

func jsonViolationOf(v *judge.Violation) jsonViolation {
	j := jsonViolation{
		Rule: v.Rule.ID, Connection: v.Conn.ID, From: sideName(v.Dir), Frame: v.Frame, Time: jsonTime(v.Time),
		Offset: v.Offset, PSN: v.PSN, Detail: v.Detail,
	}
	if v.Folded > 0 {
		j.Consequences = &jsonConsequences{Count: v.Folded}
		for _, u := range v.Consequences {
			j.Consequences.First = append(j.Consequences.First, jsonViolationOf(u))
		}
	}
	return j
}

func jsonConnOf(c *judge.ConnReport) jsonConn {
	info := c.Info
	j := jsonConn{
		ID: info.ID, Opener: info.Opener.String(), Accepter: info.Accepter.String(), Protocol: "iwarp", CRC: info.CRC,
		FPDUs: jsonBoth[int]{c.FPDUs[0], c.FPDUs[1]}, Octets: jsonBoth[uint64]{c.Octets[0], c.Octets[1]},
		Violations: c.Counts, Unknown: append([]string{}, c.Unknown...),
	}
	j.Messages = jsonMessages{c.Messages.Judged, make(map[string]int)}
	for g, n := range c.Messages.Partly {
		if n > 0 {
			j.Messages.Partly[gapNames[judge.Gap(g)]] = n
		}
	}
	j.Carrier = strings.ToLower(strings.ReplaceAll(info.Carrier.String(), " ", ""))
	if info.Carrier != decode.CarrierTCP {
		j.Protocol = "roce"
	}
	if info.ULP == decode.ULPRPCRDMA {
		j.Protocol = "rpcrdma"
	}
	j.Startup, j.Revision = startupJSON(info)
	if info.Request != nil {
		j.Initiator = sideName(info.Initiator)
	}
	return j
}

// startupJSON returns how the startup ended, and the revision that was agreed or, failing that, requested.
func startupJSON(info *decode.ConnInfo) (end string, rev *uint8) {
	switch {
	case info.Request == nil:
		return "unseen", nil
	case info.Carrier != decode.CarrierTCP && info.Reply == nil:
		return "unanswered", nil
	case info.Carrier != decode.CarrierTCP && info.Reply.Rejected:
		return "rejected", nil
	case info.Carrier != decode.CarrierTCP:
		return "done", nil
	case info.Reply == nil:
		return "unanswered", &info.Request.Rev
	case info.Reply.Rejected:
		return "rejected", &info.Reply.Rev
	}
	return "done", &info.Reply.Rev
}

func sideName(d decode.Dir) string {
	if d == decode.FromOpener {
		return "opener"
	}
	return "accepter"
}

// jsonTime returns "" if the capture has no time.
func jsonTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000000Z")
}
