package bench

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"
)

func sampleGrowth() *Growth {
	return &Growth{Name: "size", Title: "A title", X: "octets", Points: []Point{
		{X: 64, Ours: Cost{100, 9}, TCP: Cost{200, 4}},
		{X: 1 << 20, Ours: Cost{3900, .3}, TCP: Cost{7800, .1}},
	}}
}

// TestSVG: the chart is well-formed, and a line ends at the height of its last point.
func TestSVG(t *testing.T) {
	svg := sampleGrowth().SVG()
	d := xml.NewDecoder(strings.NewReader(svg))
	lines := 0
	for {
		tok, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		if e, ok := tok.(xml.StartElement); ok && e.Name.Local == "polyline" {
			lines++
		}
	}
	if lines != 4 {
		t.Errorf("%d lines", lines)
	}
	// 3.9 of 8 GB/s on an axis from y=260 up to y=34.
	if !strings.Contains(svg, `points="60.0,257.2 580.0,149.8 "`) {
		t.Errorf("our throughput is not where it belongs:\n%s", svg)
	}
}

func TestMarkdown(t *testing.T) {
	md := sampleGrowth().Markdown("x.svg")
	for _, want := range []string{"![A title](x.svg)", "| 64 | 100 | 200 | 0.50 | 9 | 4 |", "| 1M | 3900 | 7800 | 0.50 | 0.3 | 0.1 |"} {
		if !strings.Contains(md, want) {
			t.Errorf("no %q in\n%s", want, md)
		}
	}
}

func TestInsert(t *testing.T) {
	doc := "a\n" + growBegin + "old\n" + growEnd + "\nb\n"
	got, err := Insert(doc, "new\n")
	if want := strings.Replace(doc, "old", "new", 1); err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := Insert("a\n"+growEnd+growBegin, "new"); err == nil {
		t.Error("marks in the wrong order are accepted")
	}
}
