package probe

import (
	"fmt"
	"strings"

	"github.com/stag-rdma/stag/conformance/internal/probe/internal/cases"
)

// Case describes a case.
type Case struct {
	Name  string `json:"case"`           // layer and a few words: "mpa/wrong-key"
	Rows  []int  `json:"rows,omitempty"` // of docs/adversary.md
	Rule  string `json:"rule"`           // where the documents say so
	Sends string `json:"sends"`          // in words
	Wants string `json:"wants"`          // the answers that are ok
}

// Try is how the peer did on one connection.
type Try struct {
	Name    string `json:"try,omitempty"` // what distinguishes it from the other tries
	Answer  string `json:"answer"`        // the kind of answer: ERR_CHUNK, Terminate, closed, ...
	Did     string `json:"did"`           // what the peer did, in words
	Verdict string `json:"verdict"`       // ok, tolerated or fails
	Why     string `json:"why,omitempty"` // who allows a tolerated answer, or what is wrong
	// Judged is what [github.com/stag-rdma/stag/conformance/internal/judge] finds wrong in what the peer sent. Breaches that a
	// receiver may not ignore make the verdict fails, unless the answer is tolerated for a reason of its own; others
	// make it tolerated.
	Judged []string `json:"judged,omitempty"`

	// Sent and Got are the first octets of the connection in either direction, as they are on the wire; with
	// [Prober.Octets] and [Trap.Octets] only.
	Sent []byte `json:"sent,omitempty"`
	Got  []byte `json:"got,omitempty"`
}

// Result is how the peer did in a case.
type Result struct {
	Case
	Verdict string   `json:"verdict"` // the worst of the tries; also fails if the peer did not survive
	Tries   []Try    `json:"tries"`
	Alive   []string `json:"alive,omitempty"` // what is wrong with the peer after the case; none: it is alive
	Seconds float64  `json:"seconds"`         // that it took, with the look whether the peer is alive
}

func describe(c *cases.Case) Case {
	return Case{Name: c.Name, Rows: c.Rows, Rule: c.Rule, Sends: c.Sends, Wants: c.Wanted()}
}

// Answers counts the answers to the tries: "closed 2, rejected 1".
func (r *Result) Answers() string {
	var order []string
	n := make(map[string]int)
	for _, t := range r.Tries {
		if n[t.Answer]++; n[t.Answer] == 1 {
			order = append(order, t.Answer)
		}
	}
	for i, a := range order {
		if len(r.Tries) > 1 {
			order[i] = fmt.Sprintf("%s %d", a, n[a])
		}
	}
	return strings.Join(order, ", ")
}

// fail records that the peer is not alive as it was.
func (r *Result) fail(why string) { r.Alive = append(r.Alive, why) }

// sum sets the verdict.
func (r *Result) sum() {
	worst := cases.OK
	for _, t := range r.Tries {
		for v := worst; v <= cases.Fails; v++ {
			if t.Verdict == v.String() {
				worst = v
			}
		}
	}
	if len(r.Alive) > 0 {
		worst = cases.Fails
	}
	r.Verdict = worst.String()
}

// join joins the parts that are not empty.
func join(parts ...string) string {
	var there []string
	for _, s := range parts {
		if s != "" {
			there = append(there, s)
		}
	}
	return strings.Join(there, ": ")
}
