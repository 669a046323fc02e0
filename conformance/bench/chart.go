package bench

import (
	"fmt"
	"math"
	"strings"
)

// Of a chart, in pixels.
const (
	chartWide, chartHigh        = 640, 320
	chartLeft, chartRight       = 60, 60
	chartTop, chartBottom       = 34, 60
	chartTicks                  = 5
	colorOurs, colorTCP, dashed = "#0072b2", "#d55e00", ` stroke-dasharray="5 4"`
)

// SVG draws g: throughput as lines on the left axis, processor time as dashed ones on the
// right, over a logarithmic x.
func (g *Growth) SVG() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", chartWide, chartHigh)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/><text x="%d" y="18" font-size="13">%s</text>`+"\n", chartWide, chartHigh, chartLeft, g.Title)
	rate := func(c Cost) float64 { return c.Rate / 1e3 }
	cpu := func(c Cost) float64 { return c.CPU }
	g.axes(&b, g.most(rate), g.most(cpu))
	g.line(&b, rate, "")
	g.line(&b, cpu, dashed)
	y := chartHigh - 12
	for i, s := range []struct{ color, dash, what string }{
		{colorOurs, "", "stag, GB/s"}, {colorTCP, "", "TCP, GB/s"}, {colorOurs, dashed, "stag, CPU s/GiB"}, {colorTCP, dashed, "TCP, CPU s/GiB"},
	} {
		x := chartLeft + i*140
		fmt.Fprintf(&b, `<path d="M%d %dh24" stroke="%s"%s stroke-width="2"/><text x="%d" y="%d">%s</text>`+"\n", x, y-4, s.color, s.dash, x+30, y, s.what)
	}
	return b.String() + "</svg>\n"
}

// most returns the upper end of the axis of f.
func (g *Growth) most(f func(Cost) float64) float64 {
	m := 0.0
	for _, p := range g.Points {
		m = max(m, f(p.Ours), f(p.TCP))
	}
	step := math.Pow(10, math.Floor(math.Log10(max(m, 1e-9))))
	return math.Ceil(m/step) * step
}

// x returns where v lies.
func (g *Growth) x(v int) float64 {
	first, last := math.Log(float64(g.Points[0].X)), math.Log(float64(g.Points[len(g.Points)-1].X))
	return chartLeft + (math.Log(float64(v))-first)/max(last-first, 1e-9)*(chartWide-chartLeft-chartRight)
}

// up returns the y of a share of an axis.
func up(share float64) float64 {
	return chartHigh - chartBottom - share*(chartHigh-chartTop-chartBottom)
}

func (g *Growth) axes(b *strings.Builder, rate, cpu float64) {
	for i := range chartTicks + 1 {
		share := float64(i) / chartTicks
		y := up(share)
		fmt.Fprintf(b, `<path d="M%d %.1fH%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%.3g</text><text x="%d" y="%.1f">%.3g</text>`+"\n",
			chartLeft, y, chartWide-chartRight, chartLeft-6, y+4, share*rate, chartWide-chartRight+6, y+4, share*cpu)
	}
	for _, p := range g.Points {
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", g.x(p.X), chartHigh-chartBottom+16, short(p.X))
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", chartWide/2, chartHigh-chartBottom+30, g.X)
}

func (g *Growth) line(b *strings.Builder, f func(Cost) float64, dash string) {
	most := g.most(f)
	for _, s := range []struct {
		color string
		of    func(Point) Cost
	}{{colorOurs, func(p Point) Cost { return p.Ours }}, {colorTCP, func(p Point) Cost { return p.TCP }}} {
		fmt.Fprintf(b, `<polyline fill="none" stroke="%s"%s stroke-width="2" points="`, s.color, dash)
		for _, p := range g.Points {
			fmt.Fprintf(b, "%.1f,%.1f ", g.x(p.X), up(f(s.of(p))/most))
		}
		b.WriteString(`"/>` + "\n")
	}
}

// short writes a count of octets or of connections.
func short(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%dM", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%dK", n>>10)
	}
	return fmt.Sprint(n)
}

// Markdown writes g as a table below its chart, which lies in the file image.
func (g *Growth) Markdown(image string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n![%s](%s)\n\n", g.Title, g.Title, image)
	fmt.Fprintf(&b, "| %s | stag MB/s | TCP MB/s | ratio | stag CPU s/GiB | TCP CPU s/GiB |\n|---|---|---|---|---|---|\n", g.X)
	for _, p := range g.Points {
		fmt.Fprintf(&b, "| %s | %.4g | %.4g | %.2f | %.3g | %.3g |\n", short(p.X), p.Ours.Rate, p.TCP.Rate, p.Ours.Rate/p.TCP.Rate, p.Ours.CPU, p.TCP.CPU)
	}
	return b.String()
}

// Marks around what Insert replaces.
const (
	growBegin = "<!-- bench grow: from here -->\n"
	growEnd   = "<!-- bench grow: to here -->"
)

// Insert replaces what lies between the marks in doc.
func Insert(doc, text string) (string, error) {
	before, rest, begun := strings.Cut(doc, growBegin)
	_, after, ended := strings.Cut(rest, growEnd)
	if !begun || !ended {
		return "", fmt.Errorf("bench: no place for the charts: want the lines %q and %q", growBegin, growEnd)
	}
	return before + growBegin + text + growEnd + after, nil
}
