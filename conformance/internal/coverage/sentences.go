package coverage

import (
	"fmt"
	"strings"

	"github.com/stag-rdma/stag/conformance/internal/judge"
)

// printSentences writes the sentences of a document with the rules that judge them in a trace, and a line of
// sums.
func (r *Report) printSentences(b *strings.Builder) {
	if len(r.Sentences) == 0 {
		return
	}
	judged, last := 0, ""
	for i := range r.Sentences {
		s := &r.Sentences[i]
		if s.Section != last {
			last = s.Section
			fmt.Fprintf(b, "%s %s, in a trace\n", r.Spec, last)
		}
		verdict := "no rule: " + s.Reason
		if len(s.Rules) > 0 {
			judged++
			verdict = strings.Join(s.Rules, " ")
		}
		fmt.Fprintf(b, "  %s\n      %s\n", s.Says, verdict)
	}
	fmt.Fprintf(b, "%s: %d sentences, %d judged by rules, %d with the reason why not\n",
		r.Spec, len(r.Sentences), judged, len(r.Sentences)-judged)
}

// dangling returns an error for sentences that have neither rule nor reason, or that name a rule that does
// not exist.
func (r *Report) dangling() (wrong []string) {
	for i := range r.Sentences {
		s := &r.Sentences[i]
		if len(s.Rules) == 0 && s.Reason == "" {
			wrong = append(wrong, fmt.Sprintf("%s %s %q: no rule and no reason", r.Spec, s.Section, s.Says))
		}
		for _, id := range s.Rules {
			if _, ok := judge.Find(id); !ok {
				wrong = append(wrong, fmt.Sprintf("%s %s %q: there is no rule %s", r.Spec, s.Section, s.Says, id))
			}
		}
	}
	return wrong
}
