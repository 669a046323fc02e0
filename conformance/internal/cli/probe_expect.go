package cli

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// probeExpect holds the cases in which a server is known not to be ok, each with the reason:
//
//	mpa/markers tolerated    # siw has no markers
type probeExpect map[string]string // verdicts by case

// readProbeExpect reads a file of --expect. Cases must exist, and every line says why.
func readProbeExpect(name string, known func(string) bool) (probeExpect, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, unreadable(name, err)
	}
	defer f.Close()
	e := make(probeExpect)
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		text, why, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(text)
		reason := ""
		switch {
		case len(fields) == 0:
			continue
		case len(fields) != 2 || fields[1] != "fails" && fields[1] != "tolerated":
			reason = "want a case, then fails or tolerated"
		case strings.TrimSpace(why) == "":
			reason = "want the reason after #"
		case !known(fields[0]):
			reason = fmt.Sprintf("no case %s (conformance probe --list lists them)", fields[0])
		case e[fields[0]] != "":
			reason = fields[0] + " a second time"
		}
		if reason != "" {
			return nil, &exitError{exitUsage, fmt.Sprintf("%s: line %d: %s", name, n, reason)}
		}
		e[fields[0]] = fields[1]
	}
	if err := lines.Err(); err != nil {
		return nil, unreadable(name, err)
	}
	return e, nil
}

// diff prints how the verdicts differ from what is expected, and reports whether they do. Cases that were not
// played do not differ.
func (e probeExpect) diff(w io.Writer, name string, got map[string]string) bool {
	var lines []string
	for c, v := range got {
		want := e[c]
		if want == "" {
			want = "ok"
		}
		if v != want {
			lines = append(lines, fmt.Sprintf("  %s %s, expected: %s\n", c, v, want))
		}
	}
	slices.Sort(lines)
	if len(lines) == 0 {
		fmt.Fprintf(w, "as %s expects\n", name)
		return false
	}
	fmt.Fprintf(w, "not as %s expects:\n%s", name, strings.Join(lines, ""))
	return true
}
