package bench

import (
	"fmt"
	"strings"

	"github.com/stag-rdma/stag/internal/measure"
)

// SVG draws g: throughput on the left axis, processor time on the right.
func (g *Growth) SVG() string {
	c := measure.Chart{Title: g.Title, XName: g.X, Lines: []measure.Line{
		{Name: "stag, GB/s", Color: measure.Blue},
		{Name: "TCP, GB/s", Color: measure.Orange},
		{Name: "stag, CPU s/GiB", Color: measure.Blue, Right: true},
		{Name: "TCP, CPU s/GiB", Color: measure.Orange, Right: true},
	}}
	for _, p := range g.Points {
		c.X = append(c.X, p.X)
		for i, y := range []float64{p.Ours.Rate / 1e3, p.TCP.Rate / 1e3, p.Ours.CPU, p.TCP.CPU} {
			c.Lines[i].Y = append(c.Lines[i].Y, y)
		}
	}
	return c.SVG()
}

// Markdown writes g as a table below its chart, which is in the file image.
func (g *Growth) Markdown(image string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n![%s](%s)\n\n", g.Title, g.Title, image)
	fmt.Fprintf(&b, "| %s | stag MB/s | TCP MB/s | ratio | stag CPU s/GiB | TCP CPU s/GiB |\n|---|---|---|---|---|---|\n", g.X)
	for _, p := range g.Points {
		fmt.Fprintf(&b, "| %s | %.4g | %.4g | %.2f | %.3g | %.3g |\n", measure.Short(p.X), p.Ours.Rate, p.TCP.Rate, p.Ours.Rate/p.TCP.Rate, p.Ours.CPU, p.TCP.CPU)
	}
	return b.String()
}

// Marks around the text that Insert replaces.
const (
	growBegin = "<!-- bench grow: from here -->\n"
	growEnd   = "<!-- bench grow: to here -->"
)

// Insert replaces the text between the marks in doc.
func Insert(doc, text string) (string, error) {
	before, rest, begun := strings.Cut(doc, growBegin)
	_, after, ended := strings.Cut(rest, growEnd)
	if !begun || !ended {
		return "", fmt.Errorf("bench: no place for the charts: want the lines %q and %q", growBegin, growEnd)
	}
	return before + growBegin + text + growEnd + after, nil
}
