package coverage

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stag-rdma/stag/conformance/internal/judge"
)

// Entry is a row and the tests that prove it.
type Entry struct {
	Row
	Tests []Tag `json:"tests"`
}

// Report is what is known about one document.
type Report struct {
	Spec    string  `json:"spec"`
	Entries []Entry `json:"rows"`
	Strays  []Tag   `json:"strays,omitempty"` // tags with rows that the document does not have

	// Sentences are all sentences of the document, with the rules of the judge of captures.
	Sentences []judge.Sentence `json:"sentences,omitempty"`
}

// New joins the rows of a document with the tags that name them.
func New(spec string, tags []Tag) *Report {
	r := &Report{Spec: spec, Sentences: judge.Sentences(spec)}
	at := make(map[string]int)
	for i, row := range Rows(spec) {
		at[row.ID] = i
		r.Entries = append(r.Entries, Entry{Row: row, Tests: []Tag{}})
	}
	for _, t := range tags {
		if t.Spec != spec {
			continue
		}
		if i, ok := at[t.Row]; ok {
			r.Entries[i].Tests = append(r.Entries[i].Tests, t)
		} else {
			r.Strays = append(r.Strays, t)
		}
	}
	return r
}

// Empty returns the IDs of the rows that no test proves.
func (r *Report) Empty() (ids []string) {
	for i := range r.Entries {
		if len(r.Entries[i].Tests) == 0 {
			ids = append(ids, r.Entries[i].ID)
		}
	}
	return ids
}

// Err says what is missing: rows without a test, tags without a row, sentences without a rule or a reason.
// It is nil if nothing is missing.
func (r *Report) Err() error {
	var wrong []string
	if empty := r.Empty(); len(empty) > 0 {
		wrong = append(wrong, "no test is tagged with "+strings.Join(empty, ", "))
	}
	for _, t := range r.Strays {
		wrong = append(wrong, fmt.Sprintf("%s:%d: %s has no row %q", t.File, t.Line, r.Spec, t.Row))
	}
	wrong = append(wrong, r.dangling()...)
	if wrong == nil {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(wrong, "; "))
}

// Print writes the rows with their tests, and the sentences with the rules that judge them, each
// followed by a line of sums.
func (r *Report) Print(w io.Writer) error {
	var b strings.Builder
	tests, last := 0, ""
	for i := range r.Entries {
		e := &r.Entries[i]
		if e.Group() != last {
			last = e.Group()
			fmt.Fprintf(&b, "%s %s (%s)\n", r.Spec, last, e.Source)
		}
		fmt.Fprintf(&b, "  %-16s %s\n", strings.TrimPrefix(e.ID, last+" "), e.Requires)
		for _, t := range e.Tests {
			fmt.Fprintf(&b, "  %-16s   %s\n", "", t.Name())
		}
		if len(e.Tests) == 0 {
			fmt.Fprintf(&b, "  %-16s   NO TEST\n", "")
		}
		tests += len(e.Tests)
	}
	if len(r.Entries) > 0 {
		fmt.Fprintf(&b, "%s: %d rows, %d without a test, %d tags\n", r.Spec, len(r.Entries), len(r.Empty()), tests)
	}
	r.printSentences(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// group returns the part of a row's ID before the first space.
func group(id string) string {
	g, _, _ := strings.Cut(id, " ")
	return g
}

// Groups returns the groups of a document's rows, in order.
func Groups(spec string) (groups []string) {
	for _, r := range Rows(spec) {
		if g := r.Group(); !slices.Contains(groups, g) {
			groups = append(groups, g)
		}
	}
	return groups
}
