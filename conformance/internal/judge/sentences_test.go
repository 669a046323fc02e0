package judge_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/judge"
)

// TestSentences: every sentence has a rule or a reason, every rule is named by a sentence of the section
// that it judges, and no sentence names a rule that does not exist.
func TestSentences(t *testing.T) {
	named := make(map[string][]string) // rule: "mpa 5", …
	for _, doc := range judge.Documents() {
		for _, s := range judge.Sentences(doc) {
			if s.Section == "" || s.Says == "" || len(s.Rules) == 0 && s.Reason == "" {
				t.Errorf("%s: incomplete: %+v", doc, s)
			}
			for _, id := range s.Rules {
				if _, ok := judge.Find(id); !ok {
					t.Errorf("%s %s: no rule %q", doc, s.Section, id)
				}
				named[id] = append(named[id], doc+" "+s.Section)
			}
		}
	}
	for _, r := range judge.Rules() {
		if !slices.Contains(named[r.ID], r.Spec) {
			t.Errorf("%s: no sentence of %q names it; it is named by %q", r.ID, r.Spec, named[r.ID])
		}
	}
}

var (
	ruleID     = regexp.MustCompile(`^(MPA|DDP|RDMAP|RPCRDMA|RPC|NFS|COMMIT)-\d{3}$`)
	ruleSource = regexp.MustCompile(`^(RFC \d{4} (Section|Appendix) [\dA-D.]+(, )?|draft-[a-z0-9-]+( Section [\d.]+)?(, )?|docs/[a-z-]+\.md)+$`)
)

// TestRules: IDs are unique, in order and of one form, sources can be searched for, and texts are one sentence.
func TestRules(t *testing.T) {
	last := make(map[string]string)
	for _, r := range judge.Rules() {
		if !ruleID.MatchString(r.ID) || r.ID <= last[r.Layer()] {
			t.Errorf("%s after %s: not of the form LAYER-123, or out of order", r.ID, last[r.Layer()])
		}
		last[r.Layer()] = r.ID
		if !ruleSource.MatchString(r.Source) {
			t.Errorf("%s: source %q", r.ID, r.Source)
		}
		if len(r.Text) < 10 || r.Text[len(r.Text)-1] != '.' {
			t.Errorf("%s: text %q is no sentence", r.ID, r.Text)
		}
	}
}
