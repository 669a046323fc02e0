package coverage

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/judge"
)

// TestRows: every pair of operations once, and every rule says something.
func TestRows(t *testing.T) {
	ops := []string{"Send", "Write", "Read", "At", "Imm", "F", "V", "AW"}
	pairs := make(map[string]int)
	ids := make(map[string]bool)
	for _, r := range Rows("rdmap") {
		if ids[r.ID] || r.Requires == "" || r.Source == "" {
			t.Errorf("%+v: twice, or says nothing", r)
		}
		ids[r.ID] = true
		if r.First != "" {
			pairs[r.First+"-"+r.Later]++
		}
	}
	for _, a := range ops {
		for _, b := range ops {
			if pairs[a+"-"+b] != 1 {
				t.Errorf("%s-%s is there %d times", a, b, pairs[a+"-"+b])
			}
		}
	}
	if len(ids) != len(ops)*len(ops)+len(completionRules)+len(postconditions) {
		t.Errorf("%d rows", len(ids))
	}
	if got, want := Groups("rdmap"), []string{"7.1", "7.2", "7.3", "7.4", "7.5"}; !slices.Equal(got, want) {
		t.Errorf("groups %v", got)
	}
}

func tag(row, test string) Tag {
	return Tag{Spec: "rdmap", Row: row, Package: "rdmap", Test: test, File: "rdmap/x_test.go", Line: 7}
}

func TestReport(t *testing.T) {
	tags := []Tag{tag("7.3 F-FF", "TestF"), {Spec: "other", Row: "1"}}
	for _, r := range Rows("rdmap")[1:] {
		tags = append(tags, tag(r.ID, "TestAll"))
	}
	r := New("rdmap", tags)
	if got := r.Empty(); !slices.Equal(got, []string{"7.1 Send-Send"}) {
		t.Errorf("empty: %v", got)
	}
	want := `no test is tagged with 7.1 Send-Send; rdmap/x_test.go:7: rdmap has no row "7.3 F-FF"`
	if err := r.Err(); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	var b strings.Builder
	if err := r.Print(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"rdmap 7.3 (draft-talpey-rdma-commit-01)\n",
		"  Send-Send        completed in order; placed in any\n                     NO TEST\n",
		"  F-AW             Atomic Write placed only after the Flush has succeeded; never if it failed\n" +
			"                     rdmap.TestAll\n",
		"rdmap: 79 rows, 1 without a test, 78 tags\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	j, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{"row":"7.1 Send-Send","first":"Send","later":"Send",`, `"tests":[]`,
		`"tests":[{"package":"rdmap","test":"TestAll","file":"rdmap/x_test.go","line":7}]`,
	} {
		if !strings.Contains(string(j), want) {
			t.Errorf("no %s in the JSON", want)
		}
	}
	if err := New("rdmap", append(tags[1:], tag("7.1 Send-Send", "TestS"))).Err(); err != nil {
		t.Errorf("nothing is missing: %v", err)
	}
}

// TestSentences: a sentence without verdict, and one that names a rule there is not, are errors.
func TestSentences(t *testing.T) {
	r := New("mpa", nil)
	if err := r.Err(); err != nil || len(r.Sentences) < 50 {
		t.Fatalf("%d sentences, %v", len(r.Sentences), err)
	}
	r.Sentences = []judge.Sentence{{Section: "1", Says: "a"}, {Section: "2", Says: "b", Rules: []string{"MPA-999"}}}
	const want = `mpa 1 "a": no rule and no reason; mpa 2 "b": there is no rule MPA-999`
	if err := r.Err(); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}
