package measure_test

import (
	"strings"
	"testing"

	"github.com/stag-rdma/stag/internal/measure"
)

// Points lie where their axis says: each axis ends at the next round number.
func TestChart(t *testing.T) {
	c := measure.Chart{X: []int{64, 1 << 20}, Lines: []measure.Line{
		{Y: []float64{0.1, 3.9}},            // of 4
		{Right: true, Y: []float64{0, 500}}, // of 500
	}}
	svg := c.SVG()
	for _, want := range []string{`points="60.0,254.3 580.0,39.7 "`, `points="60.0,260.0 580.0,34.0 "`, `x="580.0" y="276" text-anchor="middle">1M<`} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %s in\n%s", want, svg)
		}
	}
	c.Lines = c.Lines[:1]
	if n := strings.Count(c.SVG(), ">4</text>"); n != 1 {
		t.Errorf("%d axes for lines of one", n)
	}
}
