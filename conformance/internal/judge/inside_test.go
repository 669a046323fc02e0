package judge

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What the tests need of the inside: the tables of rules, whose twins they are, some limits, and the
// files that tests make.

// Update makes the files that tests compare with what is found.
var Update = flag.Bool("update", false, "make the counts in the .expect files what is found; reasons stay, new lines lack theirs")

var (
	ReceiverRule = receiverRule
	CommitRules  = commitRules
	NFSRules     = nfsRules
	RPCRules     = rpcRules
	RPCRDMARules = rpcrdmaRules
)

const (
	MaxHeaders = maxHeaders
	MaxUnknown = maxUnknown
	MaxCalls   = maxCalls
	MaxMemory  = maxMemory
	MaxOld     = maxOld
)

// SetTooLong says from how many octets a message is too long: a test cannot send 2^32.
func (j *Judge) SetTooLong(n uint64) { j.tooLong = n }

// QuotesInFile returns how many quotations there are.
func QuotesInFile() int { return len(quotes) }

// SamplesInFile returns what samples.txt holds.
func SamplesInFile() string { return samples }

// Kept is what is remembered of the calls of the one connection: those that wait, those that were answered, and the
// memory that either have offered.
type Kept struct {
	Calls, Order, Held int
	Forgot             bool
	Old, FIFO, STags   int
}

// Kept returns what the machine of the one connection remembers of its opener's calls.
func (j *Judge) Kept(t *testing.T) Kept {
	t.Helper()
	for _, c := range j.conns {
		for _, m := range c.machines {
			if r, ok := m.(*rpcMachine); ok {
				s := &r.sides[0]
				return Kept{len(s.calls), len(s.order), s.held, s.forgot, len(s.old), len(s.fifo), len(s.mem)}
			}
		}
	}
	t.Fatal("no machine")
	return Kept{}
}

// TestSpans: pieces in any order make one; too many that do not touch count as all.
func TestSpans(t *testing.T) {
	var s spans
	for _, p := range [][2]uint64{{10, 20}, {30, 40}, {0, 5}, {20, 30}, {4, 11}} {
		s.add(p[0], p[1])
	}
	if len(s) != 1 || !s.cover(0, 40) || s.cover(0, 41) || !s.cover(7, 7) {
		t.Errorf("%v", s)
	}
	s = nil
	for i := range uint64(maxSpans) {
		s.add(i*10, i*10+5)
	}
	if len(s) != maxSpans || s.cover(0, 6) || !s.cover(20, 25) {
		t.Errorf("%d spans", len(s))
	}
	s.add(5, 5)
	s.add(maxSpans*10+1, maxSpans*10+2)
	if len(s) != 1 || !s.cover(0, maxSpans*10+2) {
		t.Errorf("%v", s)
	}
}

// TestHeaderRing: a header is found with its length while it is among the last maxHeaders, and the ring says
// whether it has forgotten anything.
func TestHeaderRing(t *testing.T) {
	var r headerRing
	header := func(n int) []byte { return binary.BigEndian.AppendUint32(make([]byte, 14), uint32(n)) }
	if _, found, all := r.find(header(0)); found || !all {
		t.Errorf("an empty ring: found %t, all %t", found, all)
	}
	for n := range maxHeaders + 10 {
		r.add(header(n), n)
		if n == 5 {
			r.add(header(5), 6) // again, with another length
		}
	}
	for _, tt := range []struct {
		n, length int
		found     bool
	}{{0, 0, false}, {9, 0, false}, {10, 10, true}, {maxHeaders, maxHeaders, true}, {maxHeaders + 9, maxHeaders + 9, true}} {
		n, found, all := r.find(header(tt.n))
		if n != tt.length || found != tt.found || !found && all {
			t.Errorf("header %d: length %d, found %t, all %t", tt.n, n, found, all)
		}
	}
	var small headerRing
	small.add(header(1), 30)
	small.add(header(1), 40)
	if n, found, all := small.find(header(1)); n != 40 || !found || !all {
		t.Errorf("the younger of two: %d, %t, %t", n, found, all)
	}
	if _, found, all := small.find(header(2)); found || !all {
		t.Errorf("never sent: found %t, all %t", found, all)
	}
}

// TestSentCalls: the remembered calls are bounded, and the last ones stay.
func TestSentCalls(t *testing.T) {
	var s sentCalls
	key := func(i int) callKey { return callKey{xid: uint32(i)} }
	for i := range 3 * maxSent {
		if s.add(key(i)) {
			t.Fatalf("call %d was sent before", i)
		}
	}
	if len(s.seen) != maxSent || len(s.last) != maxSent {
		t.Errorf("%d calls remembered, %d in the ring, want %d", len(s.seen), len(s.last), maxSent)
	}
	if !s.add(key(3*maxSent-1)) || s.add(key(0)) {
		t.Error("not the last ones are remembered")
	}
	if s.add(key(2*maxSent + 1)) {
		t.Error("the oldest is remembered although two were added after it")
	}
}

// unexplained is what a new line has in place of its reason.
const unexplained = "# why?"

// TestForeign: traces of other implementations break exactly the rules in the files beside them, and every
// line there, or every group of lines for a rule, has a reason.
func TestForeign(t *testing.T) {
	files, err := filepath.Glob("../../testdata/pcaps/*.pcap")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d captures, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			c, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			r, err := File(c, nil)
			if err != nil {
				t.Fatal(err)
			}
			name := strings.TrimSuffix(file, ".pcap") + ".expect"
			text, err := os.ReadFile(name)
			if err != nil && !*Update {
				t.Fatal(err)
			}
			if *Update {
				text = updated(string(text), r)
				if err := os.WriteFile(name, text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			e, err := ParseExpect(bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range e.Diff(r) {
				t.Error(line)
			}
			if strings.Contains(string(text), unexplained) || len(text) > 0 && text[0] != '#' {
				t.Errorf("%s: a line without a reason", name)
			}
		})
	}
}

// updated returns expectations with the counts of a report. Lines without violations are removed; new ones
// are added after the others of their rule, or at the end.
func updated(text string, r *Report) []byte {
	left := r.counts()
	var out []string
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		e, err := ParseExpect(strings.NewReader(line))
		if err != nil || len(e.counts) == 0 {
			out = append(out, line)
			continue
		}
		for k := range e.counts {
			if n := left[k]; n > 0 {
				_, why, found := strings.Cut(line, "#")
				line = lineOf(k, n)
				if found {
					line += "  #" + why
				}
				out = append(out, line)
			}
			delete(left, k)
		}
	}
	for _, k := range sorted(left) {
		out = append(out, lineOf(k, left[k])+"  "+unexplained)
	}
	return []byte(strings.TrimSpace(strings.Join(out, "\n")) + "\n")
}

// lineOf returns the expectation of n violations.
func lineOf(k ruleOfConn, n int) string { return fmt.Sprintf("%s %d %d", k.id, k.conn, n) }
