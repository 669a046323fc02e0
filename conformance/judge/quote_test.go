package judge_test

import (
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/conformance/judge"
)

func ExampleRule_Quote() {
	r, _ := judge.Find("RDMAP-006")
	q, _ := r.Quote()
	fmt.Printf("%s: %q\n", q.Source, q.Words)
	// Output: RFC 7306 Section 4.1: "Invalidate STag: Set to zero by the sender, ignored by the receiver."
}

// TestQuotes: quotations are short and belong to rules.
func TestQuotes(t *testing.T) {
	n := 0
	for _, r := range judge.Rules() {
		if q, ok := r.Quote(); ok {
			n++
			if q.Source == "" || q.Words == "" || len(q.Words) > 240 {
				t.Errorf("%s: %+v", r.ID, q)
			}
		}
	}
	if n == 0 || n != judge.QuotesInFile() {
		t.Errorf("%d quotations of %d are of rules that exist", n, judge.QuotesInFile())
	}
}
