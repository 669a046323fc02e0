package judge_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
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

// TestQuotes: every rule has a short quotation; those of our own documents are there, word for word. make quotes looks
// for the others.
func TestQuotes(t *testing.T) {
	rules := judge.Rules()
	for _, r := range rules {
		if q := r.Quote(); q == "" || len(q) > 240 {
			t.Errorf("%s: %q", r.ID, q)
		} else if name, ok := strings.CutPrefix(r.Source, "docs/"); ok {
			b, err := os.ReadFile("../../../docs/" + name)
			noErr(t, err)
			if err := quoted(string(b), q); err != nil {
				t.Errorf("%s: %s: %v", r.ID, r.Source, err)
			}
		}
	}
	if len(rules) != judge.QuotesInFile() {
		t.Errorf("%d quotations, %d rules", judge.QuotesInFile(), len(rules))
	}
}

// quoted reports what of a quotation is not in a text. Lines may be broken elsewhere.
func quoted(text, quote string) error {
	text = strings.Join(strings.Fields(text), " ")
	for part := range strings.SplitSeq(quote, " ... ") {
		_, rest, ok := strings.Cut(text, part)
		if !ok {
			return fmt.Errorf("no %q", part)
		}
		text = rest
	}
	return nil
}

// TestSamples: samples.txt has what the judge reports of the twins.
func TestSamples(t *testing.T) {
	var lines strings.Builder
	for _, r := range judge.Rules() {
		v := accusation(r)
		if v == nil {
			t.Errorf("%s has no twin", r.ID)
			continue
		}
		fmt.Fprintf(&lines, "%s frame %d %v %s\n", r.ID, v.Frame, v.Dir, v.Detail)
	}
	if *judge.Update {
		noErr(t, os.WriteFile("samples.txt", []byte(lines.String()), 0o644))
		return
	}
	if lines.String() != judge.SamplesInFile() {
		t.Error("samples.txt is not what the judge reports of the twins: run this test with -update")
	}
}

// accusation returns the first violation of a rule in its twin.
func accusation(r *judge.Rule) *judge.Violation {
	for _, v := range judged(twinTrace(r.ID)) {
		if v.Rule == r {
			return v
		}
	}
	return nil
}

// twinTrace returns the twin of a rule, and how it is judged.
func twinTrace(id string) (*Trace, *twinOf) {
	if tw, ok := twins[id]; ok {
		trace := tw.good()
		tw.mutate(trace)
		return trace, &tw
	}
	for _, table := range []map[string]func(*RPC){rpcrdmaTwins, rpcTwins, nfsTwins} {
		if talk := table[id]; talk != nil {
			conv := NewRPC()
			talk(conv)
			return conv.Trace, new(twinOf)
		}
	}
	if talk := commitTwins[id]; talk != nil {
		return talk(), new(twinOf)
	}
	return New(), new(twinOf)
}

// TestParseExpect: the error of a bad expectation says where and why.
func TestParseExpect(t *testing.T) {
	for _, tt := range []struct{ text, reason string }{
		{"# nothing\n\n  # at all\nMPA-031 1 2 # siw\n", ""},
		{"MPA-031 1\n", "2 fields: want rule, connection and count"},
		{"\nMPA-999 1 2\n", "no rule MPA-999 (conformance judge --explain all lists them)"},
		{"MPA-031 0 2\n", "connection and count are numbers from 1, or both *"},
		{"MPA-031 1 0\n", "connection and count are numbers from 1, or both *"},
		{"MPA-031 1 x\n", "connection and count are numbers from 1, or both *"},
		{"MPA-031 1 2\nMPA-031 1 3\n", "MPA-031 of connection 1 a second time"},
	} {
		_, err := judge.ParseExpect(strings.NewReader(tt.text))
		bad, ok := errors.AsType[*judge.ExpectError](err)
		switch {
		case tt.reason == "" && err != nil:
			t.Errorf("%q: %v", tt.text, err)
		case tt.reason != "" && (!ok || bad.Reason != tt.reason || bad.Line != strings.Count(tt.text, "\n")):
			t.Errorf("%q: %v, want %q", tt.text, err, tt.reason)
		}
	}
}

// TestDiff: any difference shows, in either direction.
func TestDiff(t *testing.T) {
	r := &judge.Report{Connections: []*judge.ConnReport{
		{Info: &decode.ConnInfo{ID: 1}, Counts: map[string]int{"MPA-031": 2}},
		{Info: &decode.ConnInfo{ID: 3}, Counts: map[string]int{"MPA-030": 1}},
	}}
	for _, tt := range []struct {
		expect string
		want   []string
	}{
		{"MPA-031 1 2\nMPA-030 3 1\n", nil},
		{"MPA-031 1 2", []string{"MPA-030 connection 3: 1 found, 0 expected"}},
		{"MPA-031 * *\nMPA-030 * *\nMPA-032 * *", nil},
		{"MPA-030 * *\nMPA-031 1 3\nMPA-031 * *", []string{"MPA-031 connection 1: 2 found, 3 expected"}},
		{"MPA-031 1 1\nMPA-030 3 1\nMPA-030 2 5", []string{"MPA-031 connection 1: 2 found, 1 expected", "MPA-030 connection 2: 0 found, 5 expected"}},
	} {
		e, err := judge.ParseExpect(strings.NewReader(tt.expect))
		noErr(t, err)
		if got := e.Diff(r); !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.expect, got, tt.want)
		}
	}
}
