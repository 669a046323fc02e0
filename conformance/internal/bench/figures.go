package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stag-rdma/stag/internal/measure"
)

// Report is docs/figures.json: what the benchmarks have measured, from which the tables and charts of the
// documents are made.
type Report struct {
	Suites []Suite `json:"suites"`
}

// Suite is one run of a benchmark.
type Suite struct {
	Name    string   `json:"name"` // of the benchmark: "engine"
	Host    string   `json:"host"`
	Date    string   `json:"date"` // YYYY-MM-DD
	Rounds  int      `json:"rounds"`
	Columns []string `json:"columns,omitempty"`
	Rows    []Entry  `json:"rows,omitempty"`
	Growth  []Growth `json:"growth,omitempty"` // of "grow", which has no rows
}

// Entry is a row of a table.
type Entry struct {
	Name    string `json:"name"`
	Summary bool   `json:"summary,omitempty"` // it is in the README too; set by hand
	Detail  bool   `json:"detail,omitempty"`  // it is in no table; set by hand
	Cells   []Cell `json:"cells"`             // by column
}

// Cell is a figure.
type Cell struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min,omitempty"` // with Max: the spread over the rounds, 0 and 0 if it is not kept
	Max    float64 `json:"max,omitempty"`
	Unit   string  `json:"unit,omitempty"` // of a figure that is no ratio
	Goal   float64 `json:"goal,omitempty"` // 0: none. Those of bench nfs are set by hand
	AtMost bool    `json:"atMost,omitempty"`
}

// ErrNoSuite: the report has no such suite.
var ErrNoSuite = errors.New("the report has no such suite")

// Put replaces a suite by what a benchmark has printed with --json. Goals and summaries that were set by hand
// stay with rows and columns of the same name. On return host, date and all figures are those of the new run.
func (r *Report) Put(name, host, date string, printed []byte) error {
	var suites []Suite
	switch name {
	case "nfs":
		var t measure.Table
		if err := json.Unmarshal(printed, &t); err != nil {
			return err
		}
		suites = []Suite{nfsRatios(&t), nfsCosts(&t)}
	case "grow":
		var gs []Growth
		if err := json.Unmarshal(printed, &gs); err != nil {
			return err
		}
		suites = []Suite{{Name: name, Rounds: growRounds, Growth: gs}}
	default:
		var rs []Result
		if err := json.Unmarshal(printed, &rs); err != nil {
			return err
		}
		suites = []Suite{resultSuite(name, rs)}
	}
	for _, s := range suites {
		s.Host, s.Date = host, date
		if i := slices.IndexFunc(r.Suites, func(o Suite) bool { return o.Name == s.Name }); i < 0 {
			r.Suites = append(r.Suites, s)
		} else {
			s.keep(&r.Suites[i])
			r.Suites[i] = s
		}
	}
	return nil
}

// keep takes over what was set by hand.
func (s *Suite) keep(old *Suite) {
	for i := range s.Rows {
		e := &s.Rows[i]
		j := slices.IndexFunc(old.Rows, func(o Entry) bool { return o.Name == e.Name })
		if j < 0 {
			continue
		}
		e.Summary, e.Detail = old.Rows[j].Summary, old.Rows[j].Detail
		for k := range e.Cells {
			if l := slices.Index(old.Columns, s.Columns[k]); l >= 0 && e.Cells[k].Goal == 0 {
				e.Cells[k].Goal, e.Cells[k].AtMost = old.Rows[j].Cells[l].Goal, old.Rows[j].Cells[l].AtMost
			}
		}
	}
}

// spread returns the cell of a figure measured in rounds.
func spread(v []float64) Cell {
	if len(v) == 0 {
		return Cell{}
	}
	return Cell{Median: median(v), Min: slices.Min(v), Max: slices.Max(v)}
}

func resultSuite(name string, rs []Result) Suite {
	s := Suite{Name: name, Columns: []string{"stag", "ratio"}}
	for i := range rs {
		r := &rs[i]
		ratio := spread(r.Ratios())
		ratio.Goal, ratio.AtMost = r.Goal, r.AtMost
		if ratio.Goal == 0 {
			ratio.Goal = r.Gate
		}
		s.Rounds = max(s.Rounds, len(r.Ours))
		s.Rows = append(s.Rows, Entry{Name: r.Name, Cells: []Cell{{Median: median(r.Ours), Unit: r.Unit}, ratio}})
	}
	return s
}

// nfsRatios leaves out a column that is the base of all rows: its ratios are 1.
func nfsRatios(t *measure.Table) Suite {
	s := Suite{Name: "nfs"}
	for i, column := range t.Columns {
		if !slices.ContainsFunc(t.Rows, func(r measure.Row) bool { return t.Base(&r) != i }) {
			continue
		}
		s.Columns = append(s.Columns, column)
		for j := range t.Rows {
			r := &t.Rows[j]
			if len(s.Rows) <= j {
				s.Rows = append(s.Rows, Entry{Name: r.Name})
			}
			s.Rows[j].Cells = append(s.Rows[j].Cells, spread(t.Ratios(r, i)))
			s.Rounds = max(s.Rounds, len(r.Cells[i].Rate))
		}
	}
	return s
}

// nfsCosts is the processor time of a call, where it is known.
func nfsCosts(t *measure.Table) Suite {
	s := Suite{Name: "nfs-cpu"}
	for _, column := range t.Columns {
		s.Columns = append(s.Columns, column+": server", "client")
	}
	for i := range t.Rows {
		r := &t.Rows[i]
		if r.Latency {
			continue
		}
		e := Entry{Name: r.Name}
		for j := range r.Cells {
			c := &r.Cells[j]
			e.Cells = append(e.Cells, Cell{Median: median(c.ServerCPU), Unit: "us"}, Cell{Median: median(c.ClientCPU), Unit: "us"})
			s.Rounds = max(s.Rounds, len(c.ServerCPU))
		}
		s.Rows = append(s.Rows, e)
	}
	return s
}

// JSON returns the file, a row or point a line.
func (r *Report) JSON() ([]byte, error) {
	b, err := json.Marshal(r)
	for _, begin := range []string{`{"name":`, `{"Name":`, `{"X":`} { // none is within a string: quotes are escaped there
		b = bytes.ReplaceAll(b, []byte(begin), []byte("\n"+begin))
	}
	return append(b, '\n'), err
}

// figuresMark is where a document wants a table: the suites, and whether only the rows of the summary.
var figuresMark = regexp.MustCompile(`(?s)(<!-- figures ([a-z -]+) -->\n).*?(<!-- end of figures -->)`)

// Fill returns doc with the tables between its marks, "<!-- figures engine rpc summary -->" and "<!-- end of
// figures -->", made anew. Errors: one that wraps [ErrNoSuite].
func (r *Report) Fill(doc string) (string, error) {
	var failed error
	doc = figuresMark.ReplaceAllStringFunc(doc, func(s string) string {
		m := figuresMark.FindStringSubmatch(s)
		names := strings.Fields(m[2])
		summary := names[len(names)-1] == "summary"
		if summary {
			names = names[:len(names)-1]
		}
		table, err := r.table(names, summary)
		failed = errors.Join(failed, err)
		return m[1] + table + m[3]
	})
	return doc, failed
}

// table writes the rows of the suites, which have the same columns, and where they were measured.
func (r *Report) table(names []string, summary bool) (string, error) {
	var b, source strings.Builder
	for i, name := range names {
		j := slices.IndexFunc(r.Suites, func(s Suite) bool { return s.Name == name })
		if j < 0 {
			return "", fmt.Errorf("%w: %q", ErrNoSuite, name)
		}
		s := &r.Suites[j]
		if i == 0 {
			fmt.Fprintf(&b, "| | %s |\n|---%s|\n", strings.Join(s.Columns, " | "), strings.Repeat("|---", len(s.Columns)))
		}
		for k := range s.Rows {
			if e := &s.Rows[k]; e.Summary || !summary && !e.Detail {
				fmt.Fprintf(&b, "| %s |", e.Name)
				for l := range e.Cells {
					c := e.Cells[l]
					if len(s.Columns) > 2 && c.Goal == 0 { // a wide table has spreads where they are judged
						c.Min, c.Max = 0, 0
					}
					fmt.Fprintf(&b, " %s |", &c)
				}
				b.WriteByte('\n')
			}
		}
		if at := fmt.Sprintf("Medians (least–most) of %d rounds, %s, %s", s.Rounds, s.Date, s.Host); !strings.Contains(source.String(), at) {
			fmt.Fprintf(&source, "\n%s.\n", at)
		}
	}
	return b.String() + source.String(), nil
}

// String is a cell of the table: bold if it misses its goal.
func (c *Cell) String() string {
	if c.Median == 0 {
		return "–"
	}
	s := fmt.Sprintf("%.2f", c.Median)
	if c.Unit != "" {
		s = quantity(c.Median, c.Unit)
	}
	sign, missed := "≥", c.Median < c.Goal
	if c.AtMost {
		sign, missed = "≤", c.Median > c.Goal
	}
	if c.Goal != 0 && missed {
		s = "**" + s + "**"
	}
	if c.Max != 0 {
		s += fmt.Sprintf(" (%.2f–%.2f)", c.Min, c.Max)
	}
	if c.Goal != 0 {
		s += " " + sign + " " + strconv.FormatFloat(c.Goal, 'g', -1, 64)
	}
	return s
}

// quantity writes a figure with three digits.
func quantity(v float64, unit string) string {
	switch unit {
	case "1/s", "calls/s", "/s":
		unit = "/s"
	case "us":
		unit = " µs"
	default:
		if unit == "MB/s" && v >= 1000 {
			v, unit = v/1000, "GB/s"
		}
		unit = " " + unit
	}
	if v < 1000 {
		return strconv.FormatFloat(v, 'g', 3, 64) + unit
	}
	round := 1
	for n := v; n >= 1000; n /= 10 {
		round *= 10
	}
	s := strconv.Itoa(int(v/float64(round)+0.5) * round)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s + unit
}

// Charts returns the charts of the report by the names of their files in docs.
func (r *Report) Charts() map[string]string {
	charts := make(map[string]string)
	for _, s := range r.Suites {
		for i := range s.Growth {
			charts["performance-"+s.Growth[i].Name+".svg"] = s.Growth[i].SVG()
		}
	}
	return charts
}

// SVG draws g: throughput on the left axis, processor time on the right.
func (g *Growth) SVG() string {
	c := measure.Chart{Title: g.Title, XName: g.X, Lines: []measure.Line{
		{Name: "stag, GB/s", Color: measure.Blue},
		{Name: "TCP, GB/s", Color: measure.Orange},
		{Name: "stag, CPU s/GiB", Color: measure.Blue, Right: true},
		{Name: "TCP, CPU s/GiB", Color: measure.Orange, Right: true},
	}}
	for _, p := range g.Points {
		c.X = append(c.X, p.X)
		for i, y := range []float64{p.Ours.Rate / 1e3, p.TCP.Rate / 1e3, p.Ours.CPU, p.TCP.CPU} {
			c.Lines[i].Y = append(c.Lines[i].Y, y)
		}
	}
	return c.SVG()
}
