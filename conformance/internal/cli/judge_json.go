package cli

import (
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
)

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
