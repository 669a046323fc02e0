package judge_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
)

// A capture of the Linux kernel, whose startup is refused and tried again.
func ExampleFile() {
	f, err := os.Open("../../testdata/pcaps/f-nfs3-mpav1-ops.pcap")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	r, err := judge.File(f, nil)
	fmt.Println(len(r.Connections) > 0, r.Verdict(), err)
	// Output: true clean <nil>
}

// A judge of events, for a program that decodes by itself.
func ExampleNew() {
	f, err := os.Open("../../testdata/pcaps/f-nfs3-mpav1-ops.pcap")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	j := judge.New(nil, func(v *judge.Violation) { fmt.Println(v) })
	for ev, err := range decode.Events(f, nil) {
		if err != nil {
			fmt.Println(err)
			return
		}
		j.Event(ev)
	}
	j.End()
	// Output:
}

// The same, with a report.
func ExampleNewBuilder() {
	b := judge.NewBuilder(nil)
	// b.Event(ev) for every event, in order
	r := b.Report()
	fmt.Println(r.Verdict(), len(r.Connections))
	// Output: inconclusive 0
}

// A rule by its ID.
func ExampleFind() {
	r, ok := judge.Find("MPA-030")
	fmt.Println(ok, r.Source, r.Level, r.Severity)
	fmt.Println(r.Text)
	// Output:
	// true RFC 5044 Section 4.4 MUST error
	// The CRC of an FPDU is right when either startup frame asked for CRCs.
}

// All rules of a layer.
func ExampleRules() {
	n := 0
	for _, r := range judge.Rules() {
		if r.Layer() == "MPA" {
			n++
		}
	}
	fmt.Println(n > 2)
	// Output: true
}

// The rules that judge the sentences of a document.
func ExampleSentences() {
	for _, s := range judge.Sentences("mpa") {
		if len(s.Rules) > 0 && s.Rules[0] == "MPA-031" {
			fmt.Println(s.Section, s.Says)
		}
	}
	fmt.Println(slices.Contains(judge.Documents(), "mpa"))
	// Output:
	// 5 the pad is zero when sent, ignored when received, and covered by the CRC
	// true
}

// Known deviations are kept beside a capture.
func ExampleParseExpect() {
	e, err := judge.ParseExpect(strings.NewReader("MPA-031 1 2 # siw leaves stale octets in the pad\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	r := judge.NewBuilder(nil).Report()
	for _, line := range e.Diff(r) {
		fmt.Println(line)
	}
	_, err = judge.ParseExpect(strings.NewReader("MPA-031 one\n"))
	if bad, ok := errors.AsType[*judge.ExpectError](err); ok {
		fmt.Println(bad.Line, bad)
	}
	// Output:
	// MPA-031 connection 1: 0 found, 2 expected
	// 1 line 1: 2 fields: want rule, connection and count
}

// What a breach looks like.
func ExampleRule_Sample() {
	r, _ := judge.Find("MPA-031")
	fmt.Println(r.Sample())
	// Output: frame 3 > pad 000072
}
