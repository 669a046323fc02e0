package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	measured = flag.String("measured", "", "a `file` that conformance/bench.sh has measured: put it into docs/figures.json")
	figures  = flag.Bool("figures", false, "make figures.json and the tables of the documents anew")
)

// report is docs/figures.json. Rows, columns, units and goals are set by hand; figures are what benchmarks measure.
type report struct {
	Suites []suite `json:"suites"`
}

// suite is the rows of one benchmark: "engine" those of BenchmarkEngine.
type suite struct {
	Name    string   `json:"name"`
	Host    string   `json:"host"`
	Date    string   `json:"date"` // YYYY-MM-DD
	Rounds  int      `json:"rounds"`
	Columns []string `json:"columns"`
	Rows    []entry  `json:"rows"`
}

type entry struct {
	Name    string `json:"name"`
	Summary bool   `json:"summary,omitempty"` // it is in the README too
	Cells   []cell `json:"cells"`             // by column
}

type cell struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min,omitempty"` // with Max: the spread over the rounds
	Max    float64 `json:"max,omitempty"`
	Unit   string  `json:"unit,omitempty"` // of a figure that is no ratio
	Goal   float64 `json:"goal,omitempty"` // 0: none
	AtMost bool    `json:"atMost,omitempty"`
}

// TestFigures: the tables of the documents are those of docs/figures.json. If not: make figures.
func TestFigures(t *testing.T) {
	const file = "../docs/figures.json"
	b := must(os.ReadFile(file))(t)
	var r report
	check(t, json.Unmarshal(b, &r))
	if *measured != "" {
		out := must(os.ReadFile(*measured))(t)
		r.put(t, out)
	}
	made := map[string]string{file: r.json(t)}
	for _, name := range []string{"../README.md", "../docs/performance.md"} {
		b := must(os.ReadFile(name))(t)
		made[name] = r.fill(t, string(b))
	}
	for name, want := range made {
		if *figures || *measured != "" {
			check(t, os.WriteFile(name, []byte(want), 0o644))
		} else if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s: %v: it is not made from docs/figures.json: make figures", name, err)
		}
	}
}

// TestFiguresPut: ratios are taken round by round, those of NFS to the best over TCP.
func TestFiguresPut(t *testing.T) {
	r := report{Suites: []suite{
		{Name: "rpc", Columns: []string{"stag", "ratio"}, Rows: []entry{
			{Name: "a call, b", Cells: []cell{{Unit: "us"}, {Goal: 1, AtMost: true}}},
			{Name: "rate", Summary: true, Cells: []cell{{Unit: "/s"}, {Goal: 4}}},
			{Name: "idle", Cells: []cell{{Unit: "KiB/conn", Goal: 16, AtMost: true}, {}}},
			{Name: "not measured", Cells: []cell{{Median: 1, Unit: "us"}, {Median: 2}}},
		}},
		{Name: "nfs", Columns: []string{"RDMA", "TCP", "go-nfs"}, Rows: []entry{
			{Name: "READ x 1", Cells: make([]cell, 3)}, {Name: "READ beside WRITE", Cells: make([]cell, 3)},
		}},
		{Name: "nfs-cpu", Columns: []string{"RDMA: server", "client"}, Rows: []entry{{Name: "READ x 1", Cells: []cell{{Unit: "us"}, {Unit: "us"}}}}},
	}}
	r.put(t, []byte(`cpu: Fast 1
BenchmarkRPC/a_call,_b/tcp-2  	 10	 1000 ns/op
BenchmarkRPC/a_call,_b/stag-2 	 10	 2000 ns/op	 5 MB/s
BenchmarkRPC/rate/tcp-2 	 10	 1000 ns/op
BenchmarkRPC/rate/stag-2 	 10	 200 ns/op
BenchmarkRPC/idle/stag-2 	 1	 9 ns/op	 13.5 KiB/conn
BenchmarkRPC/a_call,_b/tcp-2  	 10	 1000 ns/op
BenchmarkRPC/a_call,_b/stag-2 	 10	 4000 ns/op
BenchmarkNFS/READ_x_1/RDMA-2 	 10	 500 ns/op	 3000 server-ns/op	 2000 client-ns/op
BenchmarkNFS/READ_x_1/TCP-2 	 10	 1000 ns/op
BenchmarkNFS/READ_x_1/go-nfs-2 	 10	 800 ns/op
BenchmarkNFS/READ_beside_WRITE/RDMA-2 	 10	 1 ns/op	 300 p99-ns
BenchmarkNFS/READ_beside_WRITE/TCP-2 	 10	 1 ns/op	 100 p99-ns
BenchmarkNFS/READ_beside_WRITE/go-nfs-2 	 10	 1 ns/op	 200 p99-ns
`))
	got := r.fill(t, "<!-- figures rpc -->\n<!-- end of figures -->\n<!-- figures nfs -->\n<!-- end of figures -->\n<!-- figures nfs-cpu -->\n<!-- end of figures -->")
	for _, want := range []string{
		"| a call, b | 3 µs | **3.00** (2.00–4.00) ≤ 1 |", "| rate | 5,000,000/s | 5.00 (5.00–5.00) ≥ 4 |",
		"| idle | 13.5 KiB/conn ≤ 16 | – |", "| not measured | 1 µs | 2.00 |",
		"| READ x 1 | 1.60 | 0.80 | 1.00 |", "| READ beside WRITE | 3.00 | 1.00 | 2.00 |", "| READ x 1 | 3 µs | 2 µs |",
		"Medians (least–most) of 2 rounds, " + time.Now().UTC().Format(time.DateOnly) + ", Fast 1, ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// put replaces figures by those of the output of benchmarks, in which each round is a run of its own. Suites of which
// nothing was measured stay.
func (r *report) put(t *testing.T, out []byte) {
	host, samples := "", make(map[string]map[string][]float64) // by benchmark and by unit, one for each round
	procs := regexp.MustCompile(`-\d+$`)
	for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
		if cpu, ok := strings.CutPrefix(s.Text(), "cpu: "); ok {
			host = fmt.Sprintf("%s, %d processors", cpu, runtime.NumCPU())
		}
		f := strings.Fields(s.Text())
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		name := strings.ReplaceAll(procs.ReplaceAllString(strings.TrimPrefix(f[0], "Benchmark"), ""), "_", " ")
		if samples[name] == nil {
			samples[name] = make(map[string][]float64)
		}
		for i := 2; i+1 < len(f); i += 2 {
			v := must(strconv.ParseFloat(f[i], 64))(t)
			samples[name][f[i+1]] = append(samples[name][f[i+1]], v)
		}
	}
	rows := make(map[string]map[string]map[string][]float64) // "rpc/NULL call": by side and unit
	for name, units := range samples {
		s, rest, _ := strings.Cut(name, "/")
		row, side, _ := strings.Cut(rest, "/")
		key := strings.ToLower(s) + "/" + row
		if rows[key] == nil {
			rows[key] = make(map[string]map[string][]float64)
		}
		rows[key][side] = units
	}
	used := make(map[string]bool)
	for i := range r.Suites {
		s := &r.Suites[i]
		rounds := 0
		from, _, _ := strings.Cut(s.Name, "-") // nfs-cpu is another table of BenchmarkNFS
		for j := range s.Rows {
			e, key := &s.Rows[j], from+"/"+s.Rows[j].Name
			sides := rows[key]
			if sides == nil {
				continue
			}
			used[key] = true
			switch s.Name {
			case "nfs":
				e.ratios(s.Columns, sides)
			case "nfs-cpu":
				e.costs(s.Columns, sides)
			default:
				e.pair(sides)
			}
			s.Host, s.Date = host, time.Now().UTC().Format(time.DateOnly)
			for _, units := range sides {
				rounds = max(rounds, len(units["ns/op"]))
			}
		}
		s.Rounds = cmp.Or(rounds, s.Rounds)
	}
	for key := range rows {
		if !used[key] {
			t.Errorf("%s was measured, and has no row in docs/figures.json", key)
		}
	}
}

// pair sets what stag took, and the ratio to the other side of the row, if there is one.
func (e *entry) pair(sides map[string]map[string][]float64) {
	f, ratio := &e.Cells[0], &e.Cells[1]
	switch own := median(sides["stag"]["ns/op"]); f.Unit {
	case "us":
		f.Median = own / 1e3
	case "/s":
		f.Median = 1e9 / own
	default:
		f.Median = median(sides["stag"][f.Unit])
	}
	for side, units := range sides {
		if side == "stag" {
			continue
		}
		above, below := units["ns/op"], sides["stag"]["ns/op"]
		if ratio.AtMost { // of times, not of rates
			above, below = below, above
		}
		ratio.spread(above, below)
	}
}

// ratios sets those of calls a second to the best column over TCP, or those of the latency beside a stream.
func (e *entry) ratios(columns []string, sides map[string]map[string][]float64) {
	unit, latency := "ns/op", strings.Contains(e.Name, " beside ")
	if latency {
		unit = "p99-ns"
	}
	var best []float64
	for side, units := range sides {
		if !strings.HasPrefix(side, "RDMA") && (best == nil || median(units[unit]) < median(best)) {
			best = units[unit]
		}
	}
	for i := range e.Cells {
		above, below := best, sides[columns[i]][unit]
		if latency {
			above, below = below, above
		}
		e.Cells[i].spread(above, below)
	}
}

// costs sets the processor time of a call. The columns are pairs, of which the first has the server's name.
func (e *entry) costs(columns []string, sides map[string]map[string][]float64) {
	for i := range e.Cells {
		side, _ := strings.CutSuffix(columns[i&^1], ": server")
		e.Cells[i].Median = median(sides[side][[]string{"server-ns/op", "client-ns/op"}[i&1]]) / 1e3
	}
}

// spread sets the ratios of the rounds. A run that was cut may lack the last.
func (c *cell) spread(above, below []float64) {
	var rs []float64
	for i := range min(len(above), len(below)) {
		rs = append(rs, above[i]/below[i])
	}
	c.Min, c.Max = 0, 0
	if c.Median = median(rs); len(rs) > 0 {
		c.Min, c.Max = slices.Min(rs), slices.Max(rs)
	}
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// json returns the file, a row a line, with four digits of each figure.
func (r *report) json(t *testing.T) string {
	for i := range r.Suites {
		for j := range r.Suites[i].Rows {
			for k := range r.Suites[i].Rows[j].Cells {
				c := &r.Suites[i].Rows[j].Cells[k]
				for _, f := range []*float64{&c.Median, &c.Min, &c.Max} {
					*f, _ = strconv.ParseFloat(strconv.FormatFloat(*f, 'g', 4, 64), 64)
				}
			}
		}
	}
	b := must(json.Marshal(r))(t)
	return strings.ReplaceAll(string(b), `{"name":`, "\n"+`{"name":`) + "\n"
}

// figuresMark is where a document wants a table: the suites, and whether only the rows of the summary.
var figuresMark = regexp.MustCompile(`(?s)(<!-- figures ([a-z -]+) -->\n).*?(<!-- end of figures -->)`)

// fill returns doc with the tables between its marks made anew.
func (r *report) fill(t *testing.T, doc string) string {
	return figuresMark.ReplaceAllStringFunc(doc, func(s string) string {
		m := figuresMark.FindStringSubmatch(s)
		names := strings.Fields(m[2])
		summary := names[len(names)-1] == "summary"
		if summary {
			names = names[:len(names)-1]
		}
		return m[1] + r.table(t, names, summary) + m[3]
	})
}

// table writes the rows of the suites, which have the same columns, and where they were measured.
func (r *report) table(t *testing.T, names []string, summary bool) string {
	var b, source strings.Builder
	for i, name := range names {
		j := slices.IndexFunc(r.Suites, func(s suite) bool { return s.Name == name })
		if j < 0 {
			t.Errorf("docs/figures.json has no suite %q", name)
			continue
		}
		s := &r.Suites[j]
		if i == 0 {
			fmt.Fprintf(&b, "| | %s |\n|---%s|\n", strings.Join(s.Columns, " | "), strings.Repeat("|---", len(s.Columns)))
		}
		for k := range s.Rows {
			if e := &s.Rows[k]; e.Summary || !summary {
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
	return b.String() + source.String()
}

// String is a cell of the table: bold if it misses its goal.
func (c *cell) String() string {
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
	switch {
	case unit == "us":
		unit = " µs"
	case unit == "MB/s" && v >= 1000:
		v, unit = v/1000, " GB/s"
	case unit != "/s":
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
