package measure_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/internal/measure"
)

// counting is a Round whose figures are 1, 2, 3, … of the baseline and ten times that.
func counting(n *float64) func() (float64, float64, error) {
	return measure.Pair(func() (float64, error) { *n++; return *n, nil }, func() (float64, error) { return 10 * *n, nil })
}

func TestRun(t *testing.T) {
	var a, b, c, d float64
	var told [][2]int
	results, err := measure.Run([]measure.Case{
		{Result: measure.Result{Name: "x plain", Gate: 3}, Round: counting(&a)},
		{Result: measure.Result{Name: "left out"}, Round: counting(&b)},
		{Result: measure.Result{Name: "x once"}, Round: counting(&c), Once: true},
		{Result: measure.Result{Name: "x best"}, Round: counting(&d), Best: true},
	}, "x ", 3, func(done, of int) { told = append(told, [2]int{done, of}) })
	if err != nil || len(results) != 3 || b != 0 {
		t.Fatal(results, err, b)
	}
	for i, want := range []measure.Result{
		{Name: "x plain", Gate: 3, Base: []float64{1, 2, 3}, Ours: []float64{10, 20, 30}},
		{Name: "x once", Base: []float64{1}, Ours: []float64{10}},
		{Name: "x best", Base: []float64{1, 1, 1}, Ours: []float64{10, 20, 30}},
	} {
		if r := results[i]; r.Name != want.Name || r.Gate != want.Gate || !slices.Equal(r.Base, want.Base) || !slices.Equal(r.Ours, want.Ours) {
			t.Errorf("%+v, want %+v", r, want)
		}
	}
	if len(told) != 9 || told[0] != [2]int{0, 9} || told[8] != [2]int{8, 9} {
		t.Error(told)
	}
}

func TestRunErrors(t *testing.T) {
	broken := errors.New("broken")
	fails := func() (float64, error) { return 0, broken }
	var n float64
	if _, err := measure.Run([]measure.Case{{Result: measure.Result{Name: "x"}, Round: counting(&n)}}, "y", 1, nil); !errors.Is(err, measure.ErrNoCase) || n != 0 {
		t.Error(err, n)
	}
	fine := func() (float64, error) { n++; return 0, nil }
	for _, round := range []func() (float64, float64, error){measure.Pair(fails, fine), measure.Pair(func() (float64, error) { return 0, nil }, fails)} {
		results, err := measure.Run([]measure.Case{{Result: measure.Result{Name: "x"}, Round: round}}, "", 1, nil)
		if !errors.Is(err, broken) || err.Error() != "x: broken" || results != nil || n != 0 {
			t.Error(results, err, n)
		}
	}
}
