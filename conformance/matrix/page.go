package matrix

import (
	_ "embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/stag-rdma/stag/conformance/internal/probe"
)

//go:embed page.html
var pageText string

// row is a line of the table.
type row struct {
	Case  probe.Case
	ID    string
	Layer string // the first row of each
	Cells []*cellView
}

// cellView is a cell as the page shows it.
type cellView struct {
	*Cell
	Word string // pass, tolerated, fail, not reached, not played
	Sign string
}

// sums counts the cells of a peer.
type sums struct {
	Peer
	Kind                                         string
	Pass, Tolerated, Fail, NotReached, NotPlayed int
}

// word returns how a cell is named, and its sign.
func word(c *Cell) (string, string) {
	switch {
	case c == nil:
		return "not played", "·"
	case len(c.Result.Tries) == 1 && c.Result.Tries[0].Answer == "not reached":
		return "not reached", "○"
	case c.Result.Verdict == "ok":
		return "pass", "✓"
	case c.Result.Verdict == "tolerated":
		return "tolerated", "~"
	}
	return "fail", "✗"
}

// Write writes the page.
func (m *Matrix) Write(w io.Writer) error {
	t, err := template.New("matrix").Funcs(template.FuncMap{"hex": dump}).Parse(pageText)
	if err != nil {
		return err
	}
	var rows []row
	totals := make([]*sums, len(m.Peers))
	for i, p := range m.Peers {
		totals[i] = &sums{Peer: p, Kind: "server"}
		if p.Client != nil {
			totals[i].Kind = "client"
		}
	}
	last := ""
	for _, c := range m.cases {
		r := row{Case: c, ID: slug(c.Name)}
		if layer, _, _ := strings.Cut(c.Name, "/"); layer != last {
			r.Layer, last = layer, layer
		}
		for i, p := range m.Peers {
			v := &cellView{Cell: m.cells[c.Name][p.Name]}
			v.Word, v.Sign = word(v.Cell)
			r.Cells = append(r.Cells, v)
			switch v.Word {
			case "pass":
				totals[i].Pass++
			case "tolerated":
				totals[i].Tolerated++
			case "fail":
				totals[i].Fail++
			case "not reached":
				totals[i].NotReached++
			default:
				totals[i].NotPlayed++
			}
		}
		rows = append(rows, r)
	}
	return t.Execute(w, struct {
		*Matrix
		Rows []row
		Sums []*sums
	}{m, rows, totals})
}

// dump returns octets in lines of 16.
func dump(b []byte) string {
	var s strings.Builder
	for at := 0; at < len(b); at += 16 {
		part := b[at:min(at+16, len(b))]
		fmt.Fprintf(&s, "%04x  %s\n", at, strings.TrimSpace(spaced(hex.EncodeToString(part))))
	}
	return s.String()
}

func spaced(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i += 2 {
		b.WriteString(s[i:i+2] + " ")
	}
	return b.String()
}
