package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"

	"github.com/stag-rdma/stag/internal/measure"
)

// Paired is one figure of two versions, measured in turn: in each round the old one, the new one, and
// the old one again.
type Paired struct {
	Name            string    `json:"name"`
	AtMost          bool      `json:"atMost"` // less is better
	Old, New, Again []float64 // one figure a round
}

// selfShare is which part of the old version's ratios to itself may be worse than the bound. Choice: a
// tenth. With 7 rounds the median of equal versions is beyond it once in some hundred rows, and a loss
// of as much as the figure moves by itself is found.
const selfShare = 10

// Ratio returns the median over the rounds of new to old, above 1 if the new version is better.
func (p *Paired) Ratio() float64 {
	var rs []float64
	for i := range p.New {
		rs = append(rs, p.better(p.New[i], math.Sqrt(p.Old[i]*p.Again[i])))
	}
	return median(rs)
}

// Bound returns what Ratio may be at least: what the old version loses against itself.
func (p *Paired) Bound() float64 {
	var rs []float64
	for i := range p.Old {
		r := p.better(p.Again[i], p.Old[i])
		rs = append(rs, r, 1/r) // which of the two came first says nothing
	}
	if len(rs) == 0 {
		return 0
	}
	slices.Sort(rs)
	return rs[len(rs)/selfShare]
}

func (p *Paired) better(a, b float64) float64 {
	if p.AtMost {
		return b / a
	}
	return a / b
}

// Pass reports whether the new version loses no more than the old one does against itself.
func (p *Paired) Pass() bool { return len(p.New) == 0 || p.Ratio() >= p.Bound() }

// Figures are those of one run of a version, by name.
type Figures map[string]Figure

// Figure is one of them.
type Figure struct {
	Value  float64
	AtMost bool // less is better
}

// ParseResults adds what bench engine and bench rpc print as JSON.
func (f Figures) ParseResults(b []byte) error {
	var rs []Result
	if err := json.Unmarshal(b, &rs); err != nil {
		return err
	}
	for i := range rs {
		f[rs[i].Name] = Figure{median(rs[i].Ours), rs[i].AtMost}
	}
	return nil
}

// ParseNFS adds what nfsdemo bench nfs prints as JSON.
func (f Figures) ParseNFS(b []byte) error {
	var t measure.Table
	if err := json.Unmarshal(b, &t); err != nil {
		return err
	}
	for i := range t.Rows {
		r := &t.Rows[i]
		for j := range r.Cells {
			v := r.Cells[j].Rate
			if r.Latency {
				v = r.Cells[j].P99
			}
			f[t.Columns[j]+": "+r.Name] = Figure{median(v), r.Latency}
		}
	}
	return nil
}

// AddRound adds a round to ps, which it returns, in the order in which the names first came. A figure
// that one of the three lacks is left out: the old version may not have it.
func AddRound(ps []Paired, names []string, old, now, again Figures) []Paired {
	for _, name := range names {
		o, a, n := old[name].Value, again[name].Value, now[name].Value
		if o <= 0 || a <= 0 || n <= 0 {
			continue
		}
		i := slices.IndexFunc(ps, func(p Paired) bool { return p.Name == name })
		if i < 0 {
			i = len(ps)
			ps = append(ps, Paired{Name: name, AtMost: now[name].AtMost})
		}
		p := &ps[i]
		p.Old, p.New, p.Again = append(p.Old, o), append(p.New, n), append(p.Again, a)
	}
	return ps
}

// PrintPaired writes a line for each figure, and reports whether all pass.
func PrintPaired(w io.Writer, ps []Paired) (pass bool) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "measured\told\tnew\tnew to old\told to itself\t")
	pass = true
	for i := range ps {
		p, verdict := &ps[i], "ok"
		if !p.Pass() {
			verdict, pass = "WORSE", false
		}
		fmt.Fprintf(tw, "%s\t%.4g\t%.4g\t%.2f\t>= %.2f\t%s\n", p.Name, median(p.Old), median(p.New), p.Ratio(), p.Bound(), verdict)
	}
	tw.Flush()
	return pass
}
