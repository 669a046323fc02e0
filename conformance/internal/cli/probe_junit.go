package cli

import (
	"encoding/xml"
	"io"
	"strings"

	"github.com/stag-rdma/stag/conformance/internal/probe"
)

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
