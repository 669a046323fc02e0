package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// securitySections are those of RFC 5042 with requirements, Sections 5 to 8.
var securitySections = strings.Fields(`
	5.1.1 5.1.2 5.1.3 5.2 5.3 5.4.2 5.4.4 5.4.5
	6.1.1 6.2.1 6.2.2 6.2.3 6.3.1 6.3.2 6.3.3 6.3.4 6.3.5 6.3.6
	6.4.1 6.4.2 6.4.3.1 6.4.3.2 6.4.3.3 6.4.4 6.4.5 6.4.6 6.5 7.1 7.2 7.3 8`)

var securityRow = regexp.MustCompile(`(?m)^\| ([\d.]+) \|([^|]*)\|([^|]*)\|([^|]*)\|([^|]*)\|$`)

// TestSecurity: docs/security.md answers every section, says how, and names tests that
// exist for all that it says is met.
func TestSecurity(t *testing.T) {
	b := must(os.ReadFile("../docs/security.md"))(t)
	known := testFunctions(t)
	var sections []string
	for _, m := range securityRow.FindAllStringSubmatch(string(b), -1) {
		section, answer := m[1], strings.TrimSpace(m[3])
		sections = append(sections, section)
		if !slices.Contains([]string{"met", "met in part", "deployment", "not applicable"}, answer) {
			t.Errorf("%s: answer %q", section, answer)
		}
		if len(strings.Fields(m[2])) < 5 || len(strings.Fields(m[4])) < 4 {
			t.Errorf("%s: does not say what is required, or how it is met", section)
		}
		names := adversaryTest.FindAllStringSubmatch(m[5], -1)
		if len(names) == 0 && answer != "not applicable" {
			t.Errorf("%s: names no test", section)
		}
		for _, n := range names {
			if !known[n[1]] {
				t.Errorf("%s: there is no test %s", section, n[1])
			}
		}
	}
	for _, s := range securitySections {
		if !slices.Contains(sections, s) {
			t.Errorf("no row for Section %s", s)
		}
	}
	if len(sections) < len(securitySections) || !slices.IsSorted(sections) {
		t.Errorf("sections are missing or out of order: %v", sections)
	}
}
