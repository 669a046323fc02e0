package measure_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/internal/measure"
)

func TestResultGate(t *testing.T) {
	tests := []struct {
		name       string
		base, ours []float64
		gate       float64
		atMost     bool
		median     float64
		pass       bool
	}{
		{"no gate", []float64{2}, []float64{1}, 0, false, 0.5, true},
		{"lower bound met", []float64{10, 10, 10}, []float64{4, 6, 9}, 0.5, false, 0.6, true},
		{"lower bound missed", []float64{10, 10}, []float64{4, 5}, 0.5, false, 0.45, false},
		{"upper bound met", []float64{10}, []float64{14}, 1.5, true, 1.4, true},
		{"upper bound missed", []float64{10}, []float64{16}, 1.5, true, 1.6, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := measure.Result{Name: tt.name, Base: tt.base, Ours: tt.ours, Gate: tt.gate, AtMost: tt.atMost}
			if got := r.Median(); got < tt.median-1e-9 || got > tt.median+1e-9 {
				t.Errorf("median %v, want %v", got, tt.median)
			}
			if r.Pass() != tt.pass {
				t.Errorf("pass %v, want %v", r.Pass(), tt.pass)
			}
			var out bytes.Buffer
			if measure.Print(&out, []measure.Result{r}) != tt.pass || strings.Contains(out.String(), "BELOW") == tt.pass {
				t.Errorf("printed\n%s", &out)
			}
		})
	}
}

// TestResultGoal: a missed goal is said and is no failure.
func TestResultGoal(t *testing.T) {
	r := measure.Result{Name: "x", Base: []float64{10}, Ours: []float64{6}, Gate: 0.5, Goal: 0.7}
	var out bytes.Buffer
	if !measure.Print(&out, []measure.Result{r}) || !strings.Contains(out.String(), ">= 0.70 missed") || !strings.Contains(out.String(), ">= 0.50 ok") {
		t.Errorf("printed\n%s", &out)
	}
	r.Goal = 0.6
	out.Reset()
	if measure.Print(&out, []measure.Result{r}); !strings.Contains(out.String(), ">= 0.60 ok") {
		t.Errorf("printed\n%s", &out)
	}
}
