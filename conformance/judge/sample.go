package judge

import (
	_ "embed"
	"strings"
)

// samples holds a line for each rule: its ID, and what its twin is accused of. Made by a test with
// -update.
//
//go:embed samples.txt
var samples string

// Sample returns what the judge says of the rule's twin, a trace that breaks this rule and no other: "frame 7 > MSN
// 4 on queue 0, expected 3". It is "" for a rule whose sample was not written down.
func (r *Rule) Sample() string {
	for line := range strings.Lines(samples) {
		if id, text, _ := strings.Cut(strings.TrimSpace(line), " "); id == r.ID {
			return text
		}
	}
	return ""
}
