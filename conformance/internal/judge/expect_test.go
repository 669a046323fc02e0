package judge_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
)

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
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Diff(r); !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.expect, got, tt.want)
		}
	}
}
