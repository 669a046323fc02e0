package bench_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/bench"
)

// A new version may lose as much as the old one does against itself, in most rounds, and no more.
func TestPaired(t *testing.T) {
	steady := []float64{100, 101, 99, 100, 100, 101, 99}
	again := []float64{101, 100, 100, 99, 100, 99, 101}
	wild := []float64{150, 60, 100, 70, 160, 100, 90}
	times := func(f float64) (v []float64) {
		for _, x := range steady {
			v = append(v, f*x)
		}
		return v
	}
	for _, tt := range []struct {
		name       string
		now, again []float64
		atMost     bool
		pass       bool
	}{
		{"the same", steady, again, false, true},
		{"a little worse", times(0.99), again, false, true},
		{"worse", times(0.93), again, false, false},
		{"half", times(0.5), again, false, false},
		{"better", times(2), again, false, true},
		{"a longer time", times(1.07), again, true, false},
		{"a shorter time", times(0.93), again, true, true},
		{"worse, but the machine is busy", times(0.8), wild, false, true},
		{"half, and the machine is busy", times(0.5), wild, false, false},
	} {
		p := bench.Paired{Name: tt.name, AtMost: tt.atMost, Old: steady, New: tt.now, Again: tt.again}
		if p.Pass() != tt.pass {
			t.Errorf("%s: %.3f, bound %.3f", tt.name, p.Ratio(), p.Bound())
		}
		var out bytes.Buffer
		if bench.PrintPaired(&out, []bench.Paired{p}) != tt.pass || strings.Contains(out.String(), "WORSE") == tt.pass {
			t.Errorf("%s: printed\n%s", tt.name, &out)
		}
	}
}

// What the commands print is read; what the old version lacks is left out.
func TestRounds(t *testing.T) {
	now, old := bench.Figures{}, bench.Figures{}
	if err := now.ParseResults([]byte(`[{"name":"NULL","ours":[3,2,1],"atMost":true},{"name":"new","ours":[5]}]`)); err != nil {
		t.Fatal(err)
	}
	if err := now.ParseNFS([]byte(`{"columns":["RDMA","TCP"],"rows":[
		{"name":"WRITE","cells":[{"rate":[10]},{"rate":[20]}]},
		{"name":"GETATTR beside READ","latency":true,"cells":[{"rate":[1],"p99":[7]},{"rate":[1],"p99":[8]}]}]}`)); err != nil {
		t.Fatal(err)
	}
	if err := old.ParseResults([]byte(`[{"name":"NULL","ours":[4],"atMost":true}]`)); err != nil {
		t.Fatal(err)
	}
	ps := bench.AddRound(nil, []string{"NULL", "new"}, old, now, old)
	ps = bench.AddRound(ps, []string{"RDMA: WRITE", "TCP: WRITE", "RDMA: GETATTR beside READ"}, now, now, now)
	if len(ps) != 4 || ps[0].Ratio() != 2 || ps[2].New[0] != 20 || !ps[3].AtMost || ps[3].New[0] != 7 {
		t.Errorf("%+v", ps)
	}
	if err := old.ParseNFS([]byte("{")); err == nil {
		t.Error("no error for what is no JSON")
	}
}
