package bench

import (
	"bytes"
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	table := Table{Tolerance: 1.5, Ratios: map[string]float64{"rate": 0.6, "time": 1.2}}
	for _, tt := range []struct {
		name   string
		ratio  float64
		atMost bool
		worse  float64
		pass   bool
	}{
		{"rate", 0.6, false, 1, true},
		{"rate", 0.41, false, 0.6 / 0.41, true},
		{"rate", 0.39, false, 0.6 / 0.39, false},
		{"rate", 1.2, false, 0.5, true},
		{"time", 1.7, true, 1.7 / 1.2, true},
		{"time", 1.9, true, 1.9 / 1.2, false},
		{"new", 9, true, 0, true},
	} {
		r := Result{Name: tt.name, Base: []float64{2}, Ours: []float64{2 * tt.ratio}, AtMost: tt.atMost}
		if got := table.Worse(&r); got < tt.worse-1e-9 || got > tt.worse+1e-9 {
			t.Errorf("%s %v: %v times worse, want %v", tt.name, tt.ratio, got, tt.worse)
		}
		var out bytes.Buffer
		if table.Compare(&out, []Result{r}) != tt.pass || strings.Contains(out.String(), "WORSE") == tt.pass {
			t.Errorf("%s %v: printed\n%s", tt.name, tt.ratio, &out)
		}
	}
}

// TestBase: the table kept with the program can be read, and knows a tolerance.
func TestBase(t *testing.T) {
	base, err := Base()
	if err != nil || base.Tolerance <= 1 || len(base.Ratios) == 0 {
		t.Errorf("%+v, %v", base, err)
	}
	base.Record([]Result{{Name: "a", Base: []float64{3}, Ours: []float64{2}}})
	if got := base.Ratios["a"]; got != 0.667 || len(base.Ratios) != 1 {
		t.Errorf("recorded %v", base.Ratios)
	}
}
