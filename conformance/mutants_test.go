package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	faultHead   = regexp.MustCompile(`(?s)^Breaks: [^\n]+\n(Rules: [^\n]+\n)+((Test|Long): \./[^ \n]+ \w+[^\n]*\n)+\n--- a/`)
	faultTest   = regexp.MustCompile(`(?m)^(?:Test|Long): (\S+) (\w+)`)
	orderingRow = regexp.MustCompile(`spec: "(rdmap [^"]+)"`)
)

// TestMutants: each fault of mutants/ still applies, and its tests exist, so whoever moves code carries its faults along, and
// each row of the ordering tables has a fault that its test must notice. `make mutants` runs the tests.
func TestMutants(t *testing.T) {
	faults, err := filepath.Glob("mutants/*.diff")
	if err != nil || faults == nil {
		t.Fatal(faults, err)
	}
	var all strings.Builder
	for _, f := range faults {
		b := must(os.ReadFile(f))(t)
		if !faultHead.Match(b) {
			t.Errorf("%s does not begin with lines of Breaks:, Rules: and Test:, and an empty one", f)
		}
		all.Write(b)
		for _, m := range faultTest.FindAllSubmatch(b, -1) {
			in := must(filepath.Glob(filepath.Join("..", string(m[1]), "*_test.go")))(t)
			if !slices.ContainsFunc(in, func(f string) bool {
				return bytes.Contains(must(os.ReadFile(f))(t), []byte("\nfunc "+string(m[2])+"("))
			}) {
				t.Errorf("%s: %s has no %s", f, m[1], m[2])
			}
		}
		cmd := exec.CommandContext(t.Context(), "git", "apply", "--check", "conformance/"+f)
		cmd.Dir = ".."
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s does not apply: carry it to where its code is now: %s", f, out)
		}
	}
	tests := must(filepath.Glob("../rdmap/internal/engine/*_test.go"))(t)
	rows := 0
	for _, f := range tests {
		b := must(os.ReadFile(f))(t)
		for _, m := range orderingRow.FindAllSubmatch(b, -1) {
			rows++
			if name := strings.ReplaceAll(string(m[1]), " ", "_"); !regexp.MustCompile(` ` + regexp.QuoteMeta(name) + `\b`).MatchString(all.String()) {
				t.Errorf("%s: no fault in mutants/ breaks %s", f, m[1])
			}
		}
	}
	if rows < 60 {
		t.Errorf("only %d rows found", rows)
	}
}
