package cli

import (
	"fmt"
	"io"
	"net/url"
	"strings"
)

// columnWidths returns the width of the widest cell of each column.
func columnWidths(rows [][]string) []int {
	var width []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], len(cell))
		}
	}
	return width
}

// printColumns prints columns with one space between them. The first left columns and the last one
// are aligned to the left, the others to the right.
func printColumns(w io.Writer, rows [][]string, left int) {
	width := columnWidths(rows)
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-len(cell))
			switch {
			case i == len(row)-1:
				b.WriteString(cell)
			case i < left:
				b.WriteString(cell + pad + " ")
			default:
				b.WriteString(pad + cell + " ")
			}
		}
		fmt.Fprintln(w, b.String())
	}
}

// printTable prints columns with two spaces between them: the first aligned to the left, the others
// to the right.
func printTable(w io.Writer, rows [][]string) {
	width := columnWidths(rows)
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-len(cell))
			if i == 0 {
				b.WriteString(cell + pad)
			} else {
				b.WriteString("  " + pad + cell)
			}
		}
		fmt.Fprintln(w, b.String())
	}
}

// urlPath encodes a path for a URL.
func urlPath(p string) string { return (&url.URL{Path: p}).EscapedPath() }
