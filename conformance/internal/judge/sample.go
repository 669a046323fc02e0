package judge

import (
	_ "embed"
	"strings"
)

// samples holds a line for each rule: its ID, and what the judge reports of its twin. A test makes it, with
// -update.
//
//go:embed samples.txt
var samples string

// Sample returns what the judge reports of the rule's twin, a trace that breaks this rule and no other:
// "frame 7 > MSN 4 on queue 0, expected 3". It is "" for a rule without a sample.
func (r *Rule) Sample() string {
	for line := range strings.Lines(samples) {
		if id, text, _ := strings.Cut(strings.TrimSpace(line), " "); id == r.ID {
			return text
		}
	}
	return ""
}
