package measure

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
)

// Table holds the figures of loads on several columns, of which some are plain TCP.
type Table struct {
	Columns []string `json:"columns"`
	OverTCP []bool   `json:"overTCP"` // by column
	Rows    []Row    `json:"rows"`
}

// Row is one load.
type Row struct {
	Name    string `json:"name"`
	Octets  int    `json:"octets"`  // of data in a call
	Latency bool   `json:"latency"` // it is judged by P99, else by Rate
	Cells   []Cell `json:"cells"`   // by column
}

// Cell is one load on one column: a figure for each round. Those that were not measured are empty.
type Cell struct {
	Rate []float64 `json:"rate"` // calls a second
	// What a call has cost both ends.
	ClientCPU      []float64 `json:"clientCPU,omitempty"` // microseconds
	ServerCPU      []float64 `json:"serverCPU,omitempty"`
	ClientSwitches []float64 `json:"clientSwitches,omitempty"` // context switches
	ServerSwitches []float64 `json:"serverSwitches,omitempty"`
	// Beside a bulk stream.
	P50  []float64 `json:"p50,omitempty"` // microseconds
	P99  []float64 `json:"p99,omitempty"`
	Bulk []float64 `json:"bulk,omitempty"` // calls a second of the stream
}

// judged returns the figures that say how good a cell is.
func (r *Row) judged(column int) []float64 {
	if r.Latency {
		return r.Cells[column].P99
	}
	return r.Cells[column].Rate
}

// Base returns the column with which the others of a row are compared: the best over TCP, and the
// first one if there is none.
func (t *Table) Base(r *Row) int {
	best := -1
	for i := range r.Cells {
		if !t.OverTCP[i] {
			continue
		}
		if best < 0 || r.better(Median(r.judged(i)), Median(r.judged(best))) {
			best = i
		}
	}
	return max(best, 0)
}

func (r *Row) better(a, b float64) bool {
	if r.Latency {
		return a < b
	}
	return a > b
}

// Ratios returns the ratios of a column to the base of the row, a round each.
func (t *Table) Ratios(r *Row, column int) (ratios []float64) {
	base := r.judged(t.Base(r))
	for i, v := range r.judged(column) {
		ratios = append(ratios, v/base[i])
	}
	return ratios
}

// Print writes the ratios, then what calls have cost, then the latencies beside bulk streams.
func (t *Table) Print(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(tw, "ratio (min-max) to the best over TCP")
	t.line(tw, t.Rows, func(r *Row, i int) string {
		v := t.Ratios(r, i)
		s := fmt.Sprintf("%.2f (%.2f-%.2f)", Median(v), slices.Min(v), slices.Max(v))
		if i == t.Base(r) {
			s = r.figure(i)
		}
		return s
	})
	fmt.Fprint(tw, "us, context switches of a call: server | client")
	t.line(tw, t.Rows, func(r *Row, i int) string {
		c := &r.Cells[i]
		if len(c.ServerCPU) == 0 {
			return "-"
		}
		return fmt.Sprintf("%.0f, %.1f | %.0f, %.1f", Median(c.ServerCPU), Median(c.ServerSwitches),
			Median(c.ClientCPU), Median(c.ClientSwitches))
	})
	fmt.Fprint(tw, "p50, p99 in us (the stream in MB/s)")
	t.line(tw, slices.DeleteFunc(slices.Clone(t.Rows), func(r Row) bool { return !r.Latency }), func(r *Row, i int) string {
		c := &r.Cells[i]
		return fmt.Sprintf("%.0f, %.0f (%.0f)", Median(c.P50), Median(c.P99), Median(c.Bulk)*(1<<20)/1e6)
	})
	tw.Flush()
}

// line writes the names of the columns, and a line for each of rows.
func (t *Table) line(w io.Writer, rows []Row, cell func(r *Row, column int) string) {
	for _, c := range t.Columns {
		fmt.Fprint(w, "\t", c)
	}
	fmt.Fprintln(w)
	for i := range rows {
		fmt.Fprint(w, rows[i].Name)
		for j := range t.Columns {
			fmt.Fprint(w, "\t", cell(&rows[i], j))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
}

// figure returns the absolute figure of a cell.
func (r *Row) figure(column int) string {
	v := Median(r.judged(column))
	switch {
	case r.Latency:
		return fmt.Sprintf("%.0f us", v)
	case r.Octets >= 64<<10:
		return fmt.Sprintf("%.0f MB/s", v*float64(r.Octets)/1e6)
	}
	return fmt.Sprintf("%.0f/s", v)
}

// Bars draws the ratios of throughput.
func (t *Table) Bars() *Bars {
	b := &Bars{Title: "NFS: calls a second, ratio to the best over TCP of the same rounds", Series: t.Columns}
	for i := range t.Rows {
		r := &t.Rows[i]
		if r.Latency {
			continue
		}
		g := Group{Name: r.Name}
		for j := range t.Columns {
			v := math.NaN()
			if ratios := t.Ratios(r, j); len(ratios) > 0 {
				v = Median(ratios)
			}
			g.Values = append(g.Values, v)
		}
		b.Groups = append(b.Groups, g)
	}
	return b
}
