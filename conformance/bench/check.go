package bench

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

//go:embed base.json
var baseTable []byte

// Table is what a run is compared with: the median ratios of an earlier run.
type Table struct {
	Tolerance float64            `json:"tolerance"` // how many times worse a ratio may be
	Ratios    map[string]float64 `json:"ratios"`    // by Result.Name
}

// Base returns the table that is kept with the program.
func Base() (t Table, err error) {
	err = json.Unmarshal(baseTable, &t)
	return t, err
}

// Worse returns how many times worse r is than the ratio in the table: below 1 if it is better, and 0 if the
// table does not have it.
func (t *Table) Worse(r *Result) float64 {
	base, known := t.Ratios[r.Name]
	switch {
	case !known || base == 0 || r.Median() == 0:
		return 0
	case r.AtMost:
		return r.Median() / base
	}
	return base / r.Median()
}

// Record puts the ratios of results into the table.
func (t *Table) Record(results []Result) {
	t.Ratios = make(map[string]float64)
	for i := range results {
		t.Ratios[results[i].Name] = float64(int(results[i].Median()*1000+0.5)) / 1000
	}
}

// Compare writes the results beside the table, and reports whether none is worse by more than its tolerance.
func (t *Table) Compare(w io.Writer, results []Result) (pass bool) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "ratio of\tkept\tnow\ttimes worse\t")
	pass = true
	for i := range results {
		r, worse, verdict := &results[i], "-", "not kept"
		if n := t.Worse(r); n > 0 {
			worse, verdict = fmt.Sprintf("%.2f", n), "ok"
			if n > t.Tolerance {
				verdict, pass = fmt.Sprintf("WORSE (tolerance %.2f)", t.Tolerance), false
			}
		}
		fmt.Fprintf(tw, "%s\t%.3f\t%.3f\t%s\t%s\n", r.Name, t.Ratios[r.Name], r.Median(), worse, verdict)
	}
	tw.Flush()
	return pass
}
