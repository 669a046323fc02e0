//go:build rfc

package judge_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/judge"
)

var (
	// heading matches the heading of a section, or of an appendix: "4.1.  FPDU Format", "3.3.7 Procedure 7", "Appendix A: ".
	heading = regexp.MustCompile(`^(?:Appendix )?([A-Z]|\d+(?:\.\d+)*)(?:\.|:)? {1,3}\S`)
	// contents matches a line of the table of contents.
	contents = regexp.MustCompile(`(\. ?){4,}`)
	// page matches the two lines between pages.
	page = regexp.MustCompile(`\[Page \d+\]\s*$|^RFC \d+ .*\d{4}$`)
	// hyphen is one that a word has before the end of its line.
	hyphen = regexp.MustCompile(`-\n\s*`)
	cited  = regexp.MustCompile(`^(RFC (\d+)|draft\S+)(?: (?:Section|Appendix) (\S+))?$`)
)

// sections returns the text of a document by section, "" being all of it.
func sections(text string) map[string]string {
	m := make(map[string]string)
	section := "0"
	for line := range strings.Lines(strings.ReplaceAll(text, "\f", "")) {
		if page.MatchString(strings.TrimRight(line, "\n")) {
			continue
		}
		if h := heading.FindStringSubmatch(line); h != nil && !contents.MatchString(line) {
			section = h[1]
		}
		m[section] += line
		m[""] += line
	}
	for k, v := range m {
		m[k] = hyphen.ReplaceAllString(v, "-")
	}
	return m
}

// TestQuotesInTexts: every quotation is in the section of the RFC that the rule names. The texts are in $STAG_RFC, as
// rfc5040.txt and draft-talpey-rdma-commit-01.txt; the sections of the draft have no numbers there.
func TestQuotesInTexts(t *testing.T) {
	texts := make(map[string]map[string]string)
	for _, r := range judge.Rules() {
		if strings.HasPrefix(r.Source, "docs/") {
			continue
		}
		var missing error
		for source := range strings.SplitSeq(r.Source, ", ") {
			c := cited.FindStringSubmatch(source)
			if c == nil {
				t.Fatalf("%s: source %q", r.ID, source)
			}
			file, section := c[1]+".txt", ""
			if c[2] != "" {
				file, section = "rfc"+c[2]+".txt", c[3]
			}
			if texts[file] == nil {
				b, err := os.ReadFile(filepath.Join(os.Getenv("STAG_RFC"), file))
				noErr(t, err)
				texts[file] = sections(string(b))
			}
			if missing = quoted(texts[file][section], r.Quote()); missing == nil {
				break
			}
		}
		if missing != nil {
			t.Errorf("%s: %s: %v", r.ID, r.Source, missing)
		}
	}
}
