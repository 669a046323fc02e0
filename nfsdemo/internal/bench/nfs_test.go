package bench_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stag-rdma/stag/internal/measure"
	"github.com/stag-rdma/stag/nfsdemo/internal/bench"
)

// Every row is measured on every column, with its costs or its latencies.
func TestNFS(t *testing.T) {
	p, stop, err := bench.ServeNFS(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	columns, err := p.Columns()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := measure.ProcessUsage(p.PID); errors.Is(err, errors.ErrUnsupported) {
		for i := range columns {
			columns[i].PID = 0
		}
	}
	table, err := bench.NFS(columns, &bench.NFSOptions{Rounds: 1, Length: time.Millisecond, FileSize: 2 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if len(table.Rows) < 15 || len(table.Columns) != 4 {
		t.Fatalf("%d rows, columns %q", len(table.Rows), table.Columns)
	}
	for _, r := range table.Rows {
		if got := table.Columns[table.Base(&r)]; got != "TCP" {
			t.Errorf("%s is compared with %s", r.Name, got)
		}
		for i, c := range r.Cells {
			if len(c.Rate) != 1 || c.Rate[0] <= 0 {
				t.Errorf("%s, %s: rates %v", r.Name, table.Columns[i], c.Rate)
			}
			if r.Latency && (len(c.P99) != 1 || c.P99[0] < c.P50[0]) {
				t.Errorf("%s, %s: p50 %v, p99 %v", r.Name, table.Columns[i], c.P50, c.P99)
			}
			if !r.Latency && columns[i].PID != 0 && len(c.ServerCPU)+len(c.ServerSwitches)+len(c.ClientCPU)+len(c.ClientSwitches) != 4 {
				t.Errorf("%s, %s: no costs: %+v", r.Name, table.Columns[i], c)
			}
		}
	}
	var out bytes.Buffer
	table.Print(&out)
	for _, r := range table.Rows {
		if want := 2; strings.Count(out.String(), "\n"+r.Name+" ") < want {
			t.Errorf("%s is not in all tables:\n%s", r.Name, &out)
		}
	}
	if svg := table.Bars().SVG(); !strings.Contains(svg, ">WRITE 64K x 8<") {
		t.Errorf("no bars of a row: %s", svg)
	}
	if _, err := bench.NFS(columns, &bench.NFSOptions{Only: "none such"}); !errors.Is(err, measure.ErrNoCase) {
		t.Errorf("no row, but %v", err)
	}
}

// The base of a row is the best column over TCP: the highest rate, or the lowest latency.
func TestBase(t *testing.T) {
	p, stop, err := bench.ServeNFS(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	columns, err := p.Columns()
	if err != nil {
		t.Fatal(err)
	}
	columns = append(columns, columns[3])
	columns[4].Name = "again"
	table, err := bench.NFS(columns, &bench.NFSOptions{Rounds: 1, Length: time.Millisecond, FileSize: 2 << 20, Only: "GETATTR x 1"})
	if err != nil {
		t.Fatal(err)
	}
	r := &table.Rows[0]
	for i := range r.Cells {
		r.Cells[i] = measure.Cell{Rate: []float64{5}, P99: []float64{5}}
	}
	r.Cells[4] = measure.Cell{Rate: []float64{10}, P99: []float64{2}}
	r.Cells[0] = measure.Cell{Rate: []float64{20}, P99: []float64{1}}
	for _, r.Latency = range []bool{false, true} {
		if got := table.Base(r); got != 4 {
			t.Errorf("latency %v: base %d", r.Latency, got)
		}
	}
	r.Latency = false
	if got := table.Ratios(r, 0); len(got) != 1 || got[0] != 2 {
		t.Errorf("ratios %v", got)
	}
}
