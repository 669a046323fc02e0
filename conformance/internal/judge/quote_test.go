package judge_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/judge"
)

func ExampleRule_Quote() {
	r, _ := judge.Find("RDMAP-006")
	fmt.Printf("%s: %q\n", r.Source, r.Quote())
	// Output: RFC 5040 Section 4.1: "For Send, Send with Solicited Event, RDMA Read Request, and Terminate, the Invalidate STag field MUST be set to zero on transmit and ignored by the receiver."
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
			if err != nil {
				t.Fatal(err)
			}
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
