package main

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/coverage"
)

// TestCoverage: every rule has a test, every rule of rdmap also a mutant that breaks it, and every tag names
// a rule.
func TestCoverage(t *testing.T) {
	tags, err := coverage.Scan(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range coverage.Specs() {
		r := coverage.New(spec, tags)
		if err := r.Err(); err != nil {
			t.Error(err)
		}
		for _, e := range r.Entries {
			if spec == "rdmap" && len(e.Mutants) == 0 {
				t.Errorf("%s: no mutant breaks it", e.ID)
			}
		}
	}
	for _, tag := range tags {
		if coverage.Rows(tag.Spec) == nil {
			t.Errorf("%s:%d: no document is called %q", tag.File, tag.Line, tag.Spec)
		}
	}
}

var mutantName = regexp.MustCompile(`= on\("([^"]+)"\)`)

// TestMutants: the list of mutants is complete, and each breaks rows that exist. `make mutants` runs them.
func TestMutants(t *testing.T) {
	b, err := os.ReadFile("../rdmap/internal/mutant/on.go")
	if err != nil {
		t.Fatal(err)
	}
	var have, want []string
	for _, m := range mutantName.FindAllStringSubmatch(string(b), -1) {
		have = append(have, m[1])
	}
	for _, m := range coverage.Mutants() {
		want = append(want, m.Name)
		for _, id := range m.Rows {
			if !slices.ContainsFunc(coverage.Rows(m.Spec), func(r coverage.Row) bool { return r.ID == id }) {
				t.Errorf("%s breaks %q, which is no row of %s", m.Name, id, m.Spec)
			}
		}
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("rdmap/internal/mutant has %v, conformance/internal/coverage %v", have, want)
	}
}
