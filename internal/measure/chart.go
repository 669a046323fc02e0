package measure

import (
	"fmt"
	"math"
	"strings"
)

// Measures of a chart, in pixels; chartTicks is a number.
const (
	chartWide, chartHigh    = 640, 320
	chartLeft, chartRight   = 60, 60
	chartTop, chartBottom   = 34, 60
	chartTicks, chartLegend = 5, 140
)

// Colors of lines, which colour-blind readers can tell apart.
const (
	Blue   = "#0072b2"
	Orange = "#d55e00"
	Green  = "#009e73"
	Violet = "#cc79a7"
)

// Line is one line of a Chart.
type Line struct {
	Name  string
	Color string
	Right bool      // of the axis on the right, and dashed
	Y     []float64 // one for each of Chart.X
}

// Chart is lines over a logarithmic x. X grows; there are four lines at most.
type Chart struct {
	Title, XName string
	X            []int
	Lines        []Line
}

// SVG draws c. The axes begin at 0.
func (c *Chart) SVG() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", chartWide, chartHigh)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/><text x="%d" y="18" font-size="13">%s</text>`+"\n", chartWide, chartHigh, chartLeft, c.Title)
	c.axes(&b)
	for i := range c.Lines {
		c.line(&b, &c.Lines[i])
	}
	for i := range c.Lines {
		l, x, y := &c.Lines[i], chartLeft+i*chartLegend, chartHigh-12
		fmt.Fprintf(&b, `<path d="M%d %dh24" stroke="%s"%s stroke-width="2"/><text x="%d" y="%d">%s</text>`+"\n", x, y-4, l.Color, l.dash(), x+30, y, l.Name)
	}
	return b.String() + "</svg>\n"
}

func (l *Line) dash() string {
	if l.Right {
		return ` stroke-dasharray="5 4"`
	}
	return ""
}

// most returns the upper end of an axis, 0 if it has no line.
func (c *Chart) most(right bool) float64 {
	m := 0.0
	for _, l := range c.Lines {
		if l.Right == right {
			for _, y := range l.Y {
				m = max(m, y)
			}
		}
	}
	step := math.Pow(10, math.Floor(math.Log10(max(m, 1e-9))))
	return math.Ceil(m/step) * step
}

// x returns where v lies.
func (c *Chart) x(v int) float64 {
	first, last := math.Log(float64(c.X[0])), math.Log(float64(c.X[len(c.X)-1]))
	return chartLeft + (math.Log(float64(v))-first)/max(last-first, 1e-9)*(chartWide-chartLeft-chartRight)
}

// up returns the y of a share of an axis.
func up(share float64) float64 {
	return chartHigh - chartBottom - share*(chartHigh-chartTop-chartBottom)
}

func (c *Chart) axes(b *strings.Builder) {
	left, right := c.most(false), c.most(true)
	for i := range chartTicks + 1 {
		share := float64(i) / chartTicks
		y := up(share)
		fmt.Fprintf(b, `<path d="M%d %.1fH%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%.3g</text>`,
			chartLeft, y, chartWide-chartRight, chartLeft-6, y+4, share*left)
		if right > 0 {
			fmt.Fprintf(b, `<text x="%d" y="%.1f">%.3g</text>`, chartWide-chartRight+6, y+4, share*right)
		}
		b.WriteString("\n")
	}
	for _, v := range c.X {
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", c.x(v), chartHigh-chartBottom+16, Short(v))
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", chartWide/2, chartHigh-chartBottom+30, c.XName)
}

func (c *Chart) line(b *strings.Builder, l *Line) {
	most := c.most(l.Right)
	fmt.Fprintf(b, `<polyline fill="none" stroke="%s"%s stroke-width="2" points="`, l.Color, l.dash())
	for i, v := range c.X {
		fmt.Fprintf(b, "%.1f,%.1f ", c.x(v), up(l.Y[i]/most))
	}
	b.WriteString(`"/>` + "\n")
}

// Short writes a count of octets or of connections: 64, 4K, 1M.
func Short(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%dM", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%dK", n>>10)
	}
	return fmt.Sprint(n)
}
