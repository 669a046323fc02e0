package judge

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// unexplained is what a new line has in place of its reason.
const unexplained = "# why?"

// TestForeign: traces of other implementations break exactly the rules in the files beside them, and every
// line there, or every group of lines for a rule, has a reason.
func TestForeign(t *testing.T) {
	files, err := filepath.Glob("../../testdata/pcaps/*.pcap")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d captures, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			c, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			r, err := File(c, nil)
			if err != nil {
				t.Fatal(err)
			}
			name := strings.TrimSuffix(file, ".pcap") + ".expect"
			text, err := os.ReadFile(name)
			if err != nil && !*Update {
				t.Fatal(err)
			}
			if *Update {
				text = updated(string(text), r)
				if err := os.WriteFile(name, text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			e, err := ParseExpect(bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range e.Diff(r) {
				t.Error(line)
			}
			if strings.Contains(string(text), unexplained) || len(text) > 0 && text[0] != '#' {
				t.Errorf("%s: a line without a reason", name)
			}
		})
	}
}

// updated returns expectations with the counts of a report. Lines without violations are removed; new ones
// are added after the others of their rule, or at the end.
func updated(text string, r *Report) []byte {
	left := r.counts()
	var out []string
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		e, err := ParseExpect(strings.NewReader(line))
		if err != nil || len(e.counts) == 0 {
			out = append(out, line)
			continue
		}
		for k := range e.counts {
			if n := left[k]; n > 0 {
				_, why, found := strings.Cut(line, "#")
				line = lineOf(k, n)
				if found {
					line += "  #" + why
				}
				out = append(out, line)
			}
			delete(left, k)
		}
	}
	for _, k := range sorted(left) {
		out = append(out, lineOf(k, left[k])+"  "+unexplained)
	}
	return []byte(strings.TrimSpace(strings.Join(out, "\n")) + "\n")
}

// lineOf returns the expectation of n violations.
func lineOf(k ruleOfConn, n int) string { return fmt.Sprintf("%s %d %d", k.id, k.conn, n) }
