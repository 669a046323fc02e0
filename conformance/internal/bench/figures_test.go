package bench_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/bench"
	"github.com/stag-rdma/stag/internal/measure"
)

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestReport: what benchmarks print becomes tables; a second run replaces the figures and keeps what was set by hand.
func TestReport(t *testing.T) {
	var r bench.Report
	put := func(name string, printed any) {
		t.Helper()
		if err := r.Put(name, "a host", "2026-11-23", marshal(t, printed)); err != nil {
			t.Fatal(err)
		}
	}
	results := []bench.Result{
		{Name: "Write", Unit: "MB/s", Base: []float64{8000, 8000, 8000}, Ours: []float64{4000, 3600, 5000}, Gate: 0.4, Goal: 0.55},
		{Name: "calls", Unit: "calls/s", Base: []float64{1e5}, Ours: []float64{376400}, Gate: 3},
		{Name: "NULL", Unit: "us", Base: []float64{20}, Ours: []float64{25}},
		{Name: "in no table", Unit: "us", Base: []float64{20}, Ours: []float64{25}},
	}
	put("engine", results)
	table := measure.Table{Columns: []string{"RDMA", "TCP"}, OverTCP: []bool{false, true}, Rows: []measure.Row{
		{Name: "WRITE 4K x 8", Cells: []measure.Cell{{Rate: []float64{30, 36}, ServerCPU: []float64{13}, ClientCPU: []float64{9}}, {Rate: []float64{20, 30}}}},
	}}
	put("nfs", table)
	r.Suites[0].Rows[2].Summary, r.Suites[0].Rows[3].Detail = true, true
	r.Suites[1].Rows[0].Cells[0].Goal = 1.4
	for range 2 {
		for _, tt := range []struct{ mark, want string }{
			{"engine", `| | stag | ratio |
|---|---|---|
| Write | 4 GB/s | **0.50** (0.45–0.62) ≥ 0.55 |
| calls | 376,000/s | 3.76 (3.76–3.76) ≥ 3 |
| NULL | 25 µs | 1.25 (1.25–1.25) |

Medians (least–most) of 3 rounds, 2026-11-23, a host.
`},
			{"engine summary", `| | stag | ratio |
|---|---|---|
| NULL | 25 µs | 1.25 (1.25–1.25) |

Medians (least–most) of 3 rounds, 2026-11-23, a host.
`},
			{"nfs", `| | RDMA |
|---|---|
| WRITE 4K x 8 | **1.35** (1.20–1.50) ≥ 1.4 |

Medians (least–most) of 2 rounds, 2026-11-23, a host.
`},
			{"nfs-cpu", `| | RDMA: server | client | TCP: server | client |
|---|---|---|---|---|
| WRITE 4K x 8 | 13 µs | 9 µs | – | – |

Medians (least–most) of 1 rounds, 2026-11-23, a host.
`},
		} {
			begin, end := "a\n<!-- figures "+tt.mark+" -->\n", "<!-- end of figures -->\nb\n"
			got, err := r.Fill(begin + "old\n" + end)
			if err != nil || got != begin+tt.want+end {
				t.Errorf("%s: %v\n%s", tt.mark, err, got)
			}
		}
		put("engine", results)
		put("nfs", table)
	}
	if _, err := r.Fill("<!-- figures other -->\n<!-- end of figures -->"); !errors.Is(err, bench.ErrNoSuite) {
		t.Error(err)
	}
	b, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var again bench.Report
	if err := json.Unmarshal(b, &again); err != nil || string(marshal(t, again)) != string(marshal(t, r)) {
		t.Errorf("%v: the file is not read as it was written: %s", err, b)
	}
}

// TestCharts: a chart is well-formed, and a line ends at the height of its last point.
func TestCharts(t *testing.T) {
	var r bench.Report
	err := r.Put("grow", "", "", marshal(t, []bench.Growth{{Name: "size", Title: "A title", X: "octets", Points: []bench.Point{
		{X: 64, Ours: bench.Cost{Rate: 100, CPU: 9}, TCP: bench.Cost{Rate: 200, CPU: 4}},
		{X: 1 << 20, Ours: bench.Cost{Rate: 3900, CPU: .3}, TCP: bench.Cost{Rate: 7800, CPU: .1}},
	}}}))
	if err != nil {
		t.Fatal(err)
	}
	svg := r.Charts()["performance-size.svg"]
	lines := 0
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		tok, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		if e, ok := tok.(xml.StartElement); ok && e.Name.Local == "polyline" {
			lines++
		}
	}
	// 3.9 of 8 GB/s on an axis from y=260 up to y=34.
	if lines != 4 || !strings.Contains(svg, `points="60.0,257.2 580.0,149.8 "`) {
		t.Errorf("%d lines, or our throughput is not where it belongs:\n%s", lines, svg)
	}
}
