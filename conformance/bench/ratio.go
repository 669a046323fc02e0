package bench

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// Result is one line of a report: the ratio of our figure to the baseline's,
// round by round, and the gate its median has to pass.
type Result struct {
	Name   string    `json:"name"`
	Unit   string    `json:"unit"`   // of Base and Ours
	Base   []float64 `json:"base"`   // one figure a round
	Ours   []float64 `json:"ours"`   // one figure a round
	Gate   float64   `json:"gate"`   // bound of the median ratio, 0: none
	AtMost bool      `json:"atMost"` // the gate is an upper bound
}

// Ratios returns ours over base, a round each.
func (r *Result) Ratios() []float64 {
	out := make([]float64, len(r.Ours))
	for i := range out {
		out[i] = r.Ours[i] / r.Base[i]
	}
	return out
}

// Median returns the median of the ratios.
func (r *Result) Median() float64 { return median(r.Ratios()) }

// Pass reports whether the median ratio is on the right side of the gate.
func (r *Result) Pass() bool {
	switch {
	case r.Gate == 0:
		return true
	case r.AtMost:
		return r.Median() <= r.Gate
	default:
		return r.Median() >= r.Gate
	}
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	if len(s) == 0 {
		return 0
	}
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// Print writes the results as a table and reports whether all gates passed.
func Print(w io.Writer, results []Result) (pass bool) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "measured\tunit\tbaseline\tstag\tratio (min-max)\tgate\t")
	pass = true
	for i := range results {
		r := &results[i]
		ratios, gate, verdict := r.Ratios(), "", ""
		if r.Gate != 0 {
			sign := ">="
			if r.AtMost {
				sign = "<="
			}
			gate, verdict = fmt.Sprintf("%s %.2f", sign, r.Gate), "ok"
			if !r.Pass() {
				verdict, pass = "BELOW", false
			}
		}
		fmt.Fprintf(tw, "%s\t%s\t%.4g\t%.4g\t%.2f (%.2f-%.2f)\t%s\t%s\n", r.Name, r.Unit,
			median(r.Base), median(r.Ours), r.Median(), slices.Min(ratios), slices.Max(ratios), gate, verdict)
	}
	tw.Flush()
	return pass
}
