package measure

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
	Goal   float64   `json:"goal"`   // what is aimed at, 0: the gate
	AtMost bool      `json:"atMost"` // gate and goal are upper bounds
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
func (r *Result) Median() float64 { return Median(r.Ratios()) }

// Pass reports whether the median ratio is on the right side of the gate.
func (r *Result) Pass() bool { return r.within(r.Gate) }

func (r *Result) within(bound float64) bool {
	switch {
	case bound == 0:
		return true
	case r.AtMost:
		return r.Median() <= bound
	default:
		return r.Median() >= bound
	}
}

// bound writes b, and "ok" if the median ratio keeps to it, else word. It is empty for 0.
func (r *Result) bound(b float64, word string) string {
	if b == 0 {
		return ""
	}
	sign := ">="
	if r.AtMost {
		sign = "<="
	}
	if r.within(b) {
		word = "ok"
	}
	return fmt.Sprintf("%s %.2f %s", sign, b, word)
}

// Median returns the median of v, and 0 if v is empty.
func Median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	if len(s) == 0 {
		return 0
	}
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// Print writes the results as a table and reports whether all gates passed.
func Print(w io.Writer, results []Result) (pass bool) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "measured\tunit\tbaseline\tstag\tratio (min-max)\tgate\tgoal")
	pass = true
	for i := range results {
		r := &results[i]
		ratios := r.Ratios()
		pass = pass && r.Pass()
		fmt.Fprintf(tw, "%s\t%s\t%.4g\t%.4g\t%.2f (%.2f-%.2f)\t%s\t%s\n", r.Name, r.Unit, Median(r.Base), Median(r.Ours),
			r.Median(), slices.Min(ratios), slices.Max(ratios), r.bound(r.Gate, "BELOW"), r.bound(r.Goal, "missed"))
	}
	tw.Flush()
	return pass
}
