package main

import (
	"os"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/coverage"
)

// TestCoverage: every rule has a test, and every tag names a rule.
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
	}
	for _, tag := range tags {
		if coverage.Rows(tag.Spec) == nil {
			t.Errorf("%s:%d: no document is called %q", tag.File, tag.Line, tag.Spec)
		}
	}
}
