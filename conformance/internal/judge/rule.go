package judge

import (
	"slices"
	"strings"
)

// Level is how strongly the document demands the rule, in the words of RFC 2119.
type Level uint8

const (
	Must   Level = iota // MUST, REQUIRED, SHALL, or a format that leaves no choice
	Should              // SHOULD, RECOMMENDED
)

// String returns "MUST" or "SHOULD".
func (l Level) String() string { return [...]string{"MUST", "SHOULD"}[l] }

// Severity is what a violation means to the peer.
type Severity uint8

const (
	// Error: the peer may, or must, refuse it.
	Error Severity = iota
	// Warning: wrong, but the RFC tells the peer to ignore it (reserved bits, padding), or the peer can live
	// with it.
	Warning
	// Note: worth knowing; a report that has only notes is clean.
	Note
)

// String returns "error", "warning" or "note".
func (s Severity) String() string { return [...]string{"error", "warning", "note"}[s] }

// Rule is one rule that a trace can break.
type Rule struct {
	ID       string // "DDP-005": layer and number; never reused
	Source   string // "RFC 5041 Section 5.3"
	Level    Level
	Severity Severity
	Text     string // one sentence: what must hold
	Spec     string // document and section of the [Sentence] that it judges: "ddp 3"
}

// Layer returns the part before the number: "DDP".
func (r *Rule) Layer() string {
	layer, _, _ := strings.Cut(r.ID, "-")
	return layer
}

// tables are the rules of each layer, lowest first.
var tables = [][]*Rule{mpaRules, ddpRules, rdmapRules, rpcrdmaRules, rpcRules, nfsRules, commitRules}

var (
	allRules  = slices.Concat(tables...)
	rulesByID = index(allRules)
)

func index(rules []*Rule) map[string]*Rule {
	m := make(map[string]*Rule, len(rules))
	for _, r := range rules {
		m[r.ID] = r
	}
	return m
}

// Rules returns all rules, those of the lowest layer first, in the order of their numbers. The caller must
// not change them.
func Rules() []*Rule { return slices.Clone(allRules) }

// Find returns the rule with an ID.
func Find(id string) (*Rule, bool) {
	r, ok := rulesByID[id]
	return r, ok
}
