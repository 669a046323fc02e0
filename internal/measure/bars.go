package measure

import (
	"fmt"
	"math"
	"strings"
)

// Measures of bars, in pixels.
const (
	barsWide, barsLeft, barsRight = 720, 250, 60
	barHigh, barGap               = 9, 10
	barsTop, barsBottom           = 52, 16
)

// barColors are those of the bars of a group, which colour-blind readers can tell apart.
var barColors = []string{Blue, "#56b4e9", Green, Orange, Violet, "#e69f00", "#999999"}

// Bars is groups of horizontal bars, one for each series, with a line at 1.
type Bars struct {
	Title  string
	Series []string
	Groups []Group
}

// Group is the bars of a row. A value that is not a number has no bar.
type Group struct {
	Name   string
	Values []float64 // one for each of Bars.Series
}

// SVG draws b. The axis begins at 0.
func (b *Bars) SVG() string {
	most := 1.0
	for _, g := range b.Groups {
		for _, v := range g.Values {
			if !math.IsNaN(v) {
				most = max(most, v)
			}
		}
	}
	x := func(v float64) float64 { return barsLeft + v/most*(barsWide-barsLeft-barsRight) }
	group := len(b.Series)*barHigh + barGap
	bottom := barsTop + len(b.Groups)*group
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", barsWide, bottom+barsBottom)
	fmt.Fprintf(&s, `<rect width="%d" height="%d" fill="white"/><text x="8" y="18" font-size="13">%s</text>`+"\n", barsWide, bottom+barsBottom, b.Title)
	for i, name := range b.Series {
		at := 8 + i*(barsWide-16)/max(len(b.Series), 1)
		fmt.Fprintf(&s, `<rect x="%d" y="28" width="10" height="10" fill="%s"/><text x="%d" y="37">%s</text>`+"\n", at, barColors[i%len(barColors)], at+14, name)
	}
	for i, g := range b.Groups {
		y := barsTop + i*group
		fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", barsLeft-8, y+(group-barGap)/2+4, g.Name)
		for j, v := range g.Values {
			if math.IsNaN(v) {
				continue
			}
			fmt.Fprintf(&s, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/><text x="%.1f" y="%d" font-size="9">%.2f</text>`+"\n",
				barsLeft, y+j*barHigh, x(v)-barsLeft, barHigh-1, barColors[j%len(barColors)], x(v)+3, y+(j+1)*barHigh-1, v)
		}
	}
	fmt.Fprintf(&s, `<path d="M%.1f %dV%d" stroke="black" stroke-dasharray="2 3"/>`+"\n", x(1), barsTop-6, bottom)
	return s.String() + "</svg>\n"
}
