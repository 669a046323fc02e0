package main

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/stag-rdma/stag/conformance/internal/probe"
)

// probeVersion is the version of the JSON below (docs/conformance.md).
const probeVersion = 1

// probeText prints what probe finds.
type probeText struct {
	w             io.Writer
	json, verbose bool

	cases, tries          int
	ok, tolerated, failed int
}

// describe prints a case without a result.
func (o *probeText) describe(c *probe.Case) {
	if o.json {
		_ = json.NewEncoder(o.w).Encode(struct {
			Version int `json:"version"`
			*probe.Case
		}{probeVersion, c}) // Main checks whether everything could be written
		return
	}
	fmt.Fprintf(o.w, "%s\n", c.Name)
	o.details(c)
}

func (o *probeText) details(c *probe.Case) {
	fmt.Fprintf(o.w, "  sends  %s\n  wants  %s (%s)\n", c.Sends, c.Wants, c.Rule)
}

// result prints what the peer did in a case.
func (o *probeText) result(r *probe.Result) {
	o.cases++
	o.tries += len(r.Tries)
	word := r.Verdict
	switch r.Verdict {
	case "ok":
		o.ok++
	case "tolerated":
		o.tolerated++
	default:
		o.failed++
		word = "FAILS"
	}
	if o.json {
		_ = json.NewEncoder(o.w).Encode(struct {
			Version int `json:"version"`
			*probe.Result
		}{probeVersion, r})
		return
	}
	fmt.Fprintf(o.w, "%-9s  %-28s  %s\n", word, r.Name, r.Answers())
	all := o.verbose || word == "FAILS"
	if all {
		o.details(&r.Case)
	}
	said := make(map[string]bool)
	for _, t := range r.Tries {
		line := t.Answer + ": " + t.Why
		switch {
		case o.verbose || t.Verdict == "fails":
			fmt.Fprintf(o.w, "  %s\n", tryLine(&t))
		case t.Verdict == "tolerated" && !said[line]:
			said[line] = true
			fmt.Fprintf(o.w, "  %s\n", line)
		}
	}
	judged := make(map[string]bool)
	for _, t := range r.Tries {
		for _, s := range t.Judged {
			if !judged[s] {
				judged[s] = true
				fmt.Fprintf(o.w, "  judge: %s\n", s)
			}
		}
	}
	for _, a := range r.Alive {
		fmt.Fprintf(o.w, "  afterwards: %s\n", a)
	}
}

func tryLine(t *probe.Try) string {
	s := t.Verdict + ": " + t.Did
	if t.Name != "" {
		s = t.Name + ": " + s
	}
	if t.Why != "" {
		s += ": " + t.Why
	}
	return s
}

// sum prints the last line.
func (o *probeText) sum(addr string) {
	if !o.json && o.cases > 0 {
		fmt.Fprintf(o.w, "%s: %d cases, %d connections: %d ok, %d tolerated, %d fail\n", addr, o.cases, o.tries, o.ok, o.tolerated, o.failed)
	}
}

// The elements of a JUnit report, as most CI systems read them.
type (
	junitSuite struct {
		XMLName  xml.Name    `xml:"testsuite"`
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Time     float64     `xml:"time,attr"` // seconds
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string     `xml:"classname,attr"`
		Name    string     `xml:"name,attr"`
		Time    float64    `xml:"time,attr"`
		Rule    *junitRule `xml:"properties>property,omitempty"` // the section that says so
		Failure *junitText `xml:"failure,omitempty"`
		Error   *junitText `xml:"error,omitempty"`
		Out     string     `xml:"system-out,omitempty"`
	}
	junitRule struct {
		Name  string `xml:"name,attr"` // "rule"
		Value string `xml:"value,attr"`
	}
	junitText struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// add enters a result. A case that fails as expected is no failure; one that does not, as it is.
func (s *junitSuite) add(r *probe.Result, expected string) {
	layer, name, _ := strings.Cut(r.Name, "/")
	c := junitCase{Class: "probe." + layer, Name: name, Time: r.Seconds, Rule: &junitRule{"rule", r.Rule}}
	s.Time += r.Seconds
	var b strings.Builder
	o := &probeText{w: &b, verbose: true}
	o.result(r)
	if expected == "" {
		expected = "ok"
	}
	switch {
	case r.Verdict == "fails" && expected != "fails", r.Verdict != "fails" && expected == "fails":
		s.Failures++
		c.Failure = &junitText{r.Verdict + ", expected: " + expected, b.String()}
	default:
		c.Out = b.String()
	}
	s.Tests++
	s.Cases = append(s.Cases, c)
}

// broken enters why the probe ended early.
func (s *junitSuite) broken(err error) {
	s.Tests++
	s.Errors++
	s.Cases = append(s.Cases, junitCase{Class: "probe", Name: "run", Error: &junitText{err.Error(), ""}})
}

func (s *junitSuite) write(w io.Writer) error {
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	return e.Encode(s)
}
