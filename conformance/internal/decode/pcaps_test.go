package decode_test

import (
	"bufio"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
)

const (
	pcapDir    = "../../testdata/pcaps"
	countsFile = "../../testdata/tshark-counts.tsv"
	exceptions = "../../testdata/tshark-exceptions.tsv"
)

// captures returns the paths of the captures in testdata.
func captures(tb testing.TB) []string {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(pcapDir, "*.pcap"))
	if err != nil || len(files) == 0 {
		tb.Fatalf("no captures: %v", err)
	}
	return files
}

// decodeFile calls visit for every event of a capture.
func decodeFile(tb testing.TB, file string, visit func(*decode.Event)) {
	tb.Helper()
	f, err := os.Open(file)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	for ev, err := range decode.Events(bufio.NewReader(f), nil) {
		if err != nil {
			tb.Fatalf("%s: %v", file, err)
		}
		visit(ev)
	}
}

// row is a line of a table: capture, key, numbers, and in the exceptions a reason.
type row struct{ capture, key string }

// readTable reads a tab-separated table; lines that begin with # are comments.
func readTable(t *testing.T, name string, columns int) map[row][]string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	table := make(map[row][]string)
	for line := range strings.Lines(string(b)) {
		line = strings.TrimRight(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != columns {
			t.Fatalf("%s: %d columns, want %d: %q", name, len(f), columns, line)
		}
		r := row{f[0], f[1]}
		if table[r] != nil {
			t.Fatalf("%s: twice: %v", name, r)
		}
		table[r] = f[2:]
	}
	return table
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestCountsAgreeWithTshark compares what the decoder finds in every capture with what tshark finds. A
// difference must be in the table of exceptions, with both numbers and the reason; an obsolete exception
// fails too.
func TestCountsAgreeWithTshark(t *testing.T) {
	theirs, except := readTable(t, countsFile, 3), readTable(t, exceptions, 5)
	for _, file := range captures(t) {
		name := filepath.Base(file)
		ours := make(decode.Counts)
		decodeFile(t, file, ours.Add)
		keys := ours.Keys()
		for r := range maps.Keys(theirs) {
			if r.capture == name {
				keys = append(keys, r.key)
			}
		}
		slices.Sort(keys)
		for _, key := range slices.Compact(keys) {
			if key == "error" || key == "undecoded" || key == "crc.bad" {
				continue // not counted by tshark; see TestNothingUndecoded
			}
			r := row{name, key}
			want := 0
			if c := theirs[r]; c != nil {
				want = number(t, c[0])
			}
			e := except[r]
			delete(except, r)
			switch {
			case e == nil && ours[key] != want:
				t.Errorf("%s %s: %d, tshark finds %d", name, key, ours[key], want)
			case e != nil && (number(t, e[0]) != want || number(t, e[1]) != ours[key] || want == ours[key]):
				t.Errorf("%s %s: %d, tshark finds %d; the exception says %s and %s", name, key, ours[key], want, e[1], e[0])
			}
		}
	}
	for r := range except {
		t.Errorf("exception for nothing: %v", r)
	}
}
