package main_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// TestCopies holds READ and WRITE to one copy in user space for each octet of data
// (from where the FPDU is staged and its CRC checked to where it is placed), both ends
// together. It trusts no counter that somebody must remember to call: the packages
// of this module are rewritten so that every copy, append, clone and conversion of
// octets counts, built with an overlay, and run.
func TestCopies(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles this module once more")
	}
	list, err := goList(".")
	noErr(t, err)
	work := t.TempDir()
	in, err := newInstrumenter(work, list)
	noErr(t, err)
	here, err := os.Getwd()
	noErr(t, err)
	for to, from := range map[string]string{
		"copycount/count.go": "count.go.txt", "copymain/main.go": "main.go.txt",
	} {
		text, err := os.ReadFile(filepath.Join("testdata", "copies", from))
		noErr(t, err)
		noErr(t, in.add(filepath.Join(here, filepath.FromSlash(to)), text))
	}
	bin := filepath.Join(work, "copymain")
	noErr(t, in.build(module+"/nfsdemo/copymain", bin))
	got := runCopies(t, bin, work)
	if len(got) != 4 {
		t.Fatalf("%d transfers were measured, want 4", len(got))
	}
	for what, octets := range got {
		total, where := sum(in, octets)
		t.Logf("%s: %.4f copies for each octet:%s", what, total, where)
		if total > mostCopies {
			t.Errorf("%s: %.4f copies for each octet, want at most 1:%s", what, total, where)
		}
	}
}

// sum adds up the places, and describes those that count.
func sum(in *instrumenter, octets map[int]int64) (total float64, where string) {
	for _, site := range slices.Sorted(maps.Keys(octets)) {
		n := float64(octets[site]) / copiesSize
		if total += n; n > 0.001 {
			where += fmt.Sprintf(" %s %.4f", in.site[site], n)
		}
	}
	return total, where
}

const (
	copiesSize = 32<<20 + 3 // octets of the file
	// Headers are copied more often than data; there are some hundred octets of them
	// in a MiB. The FPDU that the end of a read has cut is moved once more, and on a busy
	// machine reads are short.
	mostCopies = 1.1
)

// runCopies runs the instrumented program and returns what it printed.
func runCopies(t *testing.T, bin, work string) (got map[string]map[int]int64) {
	t.Helper()
	noErr(t, os.Mkdir(filepath.Join(work, "export"), 0o700))
	noErr(t, os.WriteFile(filepath.Join(work, "source"), noise(copiesSize), 0o600))
	cmd := exec.Command(bin, work)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	noErr(t, err)
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	return got
}
