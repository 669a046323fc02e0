package judge

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Expect holds the rules that a capture is known to break. Peers deviate; an expectation beside the capture
// documents that, with the reason.
//
// It has one line per rule and connection, with the number of violations; the text after # says why.
//
//	RPCRDMA-073 1 3   # knfsd invalidates although its R flag is 0
//
// For captures that differ each time, "RPCRDMA-073 * *" allows any number, including none, in any
// connection.
type Expect struct {
	counts map[ruleOfConn]int
	any    map[string]bool // by rule
}

// ruleOfConn is a rule and the number of a connection in its capture, from 1.
type ruleOfConn struct {
	id   string
	conn int
}

// ExpectError is a line that is not an expectation.
type ExpectError struct {
	Line   int    // from 1
	Reason string // what is wrong with it
}

// Error returns "line 3: no rule DDP-999 (conformance judge --explain all lists them)".
func (e *ExpectError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// ParseExpect reads expectations until r ends. The error is r's, or an *[ExpectError].
func ParseExpect(r io.Reader) (*Expect, error) {
	e := &Expect{counts: make(map[ruleOfConn]int), any: make(map[string]bool)}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if fields := strings.Fields(text); len(fields) > 0 {
			if reason := e.add(fields); reason != "" {
				return nil, &ExpectError{n, reason}
			}
		}
	}
	return e, lines.Err()
}

// add takes the fields of a line. It returns what is wrong with them, or "".
func (e *Expect) add(fields []string) string {
	if len(fields) != 3 {
		return fmt.Sprintf("%d fields: want rule, connection and count", len(fields))
	}
	if _, ok := Find(fields[0]); !ok {
		return fmt.Sprintf("no rule %s (conformance judge --explain all lists them)", fields[0])
	}
	if fields[1] == "*" && fields[2] == "*" {
		e.any[fields[0]] = true
		return ""
	}
	conn, err1 := strconv.Atoi(fields[1])
	count, err2 := strconv.Atoi(fields[2])
	if err1 != nil || err2 != nil || conn < 1 || count < 1 {
		return "connection and count are numbers from 1, or both *"
	}
	key := ruleOfConn{fields[0], conn}
	if e.counts[key] > 0 {
		return fmt.Sprintf("%s of connection %d a second time", fields[0], conn)
	}
	e.counts[key] = count
	return ""
}

// Diff returns the differences between a report and what was expected, one line each, by connection and
// rule.
func (e *Expect) Diff(r *Report) (lines []string) {
	found := r.counts()
	all := maps.Clone(found)
	maps.Copy(all, e.counts)
	for _, k := range sorted(all) {
		if got, want := found[k], e.counts[k]; got != want && (want > 0 || !e.any[k.id]) {
			lines = append(lines, fmt.Sprintf("%s connection %d: %d found, %d expected", k.id, k.conn, got, want))
		}
	}
	return lines
}

// counts returns the violations by rule and connection.
func (r *Report) counts() map[ruleOfConn]int {
	m := make(map[ruleOfConn]int)
	for _, c := range r.Connections {
		for id, n := range c.Counts {
			m[ruleOfConn{id, c.Info.ID}] += n
		}
	}
	return m
}

// sorted returns the keys by connection, then rule.
func sorted(m map[ruleOfConn]int) []ruleOfConn {
	return slices.SortedFunc(maps.Keys(m), func(a, b ruleOfConn) int {
		return cmp.Or(cmp.Compare(a.conn, b.conn), cmp.Compare(a.id, b.id))
	})
}
