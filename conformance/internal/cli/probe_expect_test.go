package cli

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProbeExpect: with --expect the status is 0 if exactly the verdicts of the file come, and every line has a
// reason; --junit says the same to a CI system.
func TestProbeExpect(t *testing.T) {
	addr := probed(t)
	for _, tt := range []struct {
		file   string
		status int
		says   string
	}{
		{"# nothing\n", 0, "as "},
		{"mpa/wrong-key fails  # it always has\n", 1, "mpa/wrong-key ok, expected: fails"},
		{"mpa/depths tolerated # not played\n", 0, "as "},
		{"mpa/wrong-key fails\n", 2, "line 1: want the reason after #"},
		{"mpa/wrong-key ok # so what\n", 2, "line 1: want a case, then fails or tolerated"},
		{"mpa/nix fails # x\n", 2, "line 1: no case mpa/nix"},
	} {
		dir := t.TempDir()
		name, junit := filepath.Join(dir, "x.expect"), filepath.Join(dir, "x.xml")
		if err := os.WriteFile(name, []byte(tt.file), 0o600); err != nil {
			t.Fatal(err)
		}
		status, stdout, stderr := run(t, nil, "probe", "--only", "^mpa/wrong-key$", "--expect", name, "--junit", junit, addr)
		if status != tt.status || !strings.Contains(stdout+stderr, tt.says) {
			t.Errorf("%q: status %d, want %d and %q:\n%s%s", tt.file, status, tt.status, tt.says, stdout, stderr)
		}
		if tt.status == 2 {
			continue
		}
		b, err := os.ReadFile(junit)
		if err != nil {
			t.Fatal(err)
		}
		var s junitSuite
		if err := xml.Unmarshal(b, &s); err != nil || s.Tests != 1 || s.Failures != tt.status || len(s.Cases) != 1 || s.Cases[0].Name != "wrong-key" ||
			s.Time <= 0 || s.Cases[0].Time != s.Time || s.Cases[0].Rule.Value != "RFC 5044 Section 7.1.2" {
			t.Errorf("%q: %v: %s", tt.file, err, b)
		}
	}
}

// TestLinuxExpect: the files of --expect for knfsd say what the matrix has found, with a reason for each case.
func TestLinuxExpect(t *testing.T) {
	files, err := filepath.Glob("../../linux/knfsd-*.expect")
	if err != nil || len(files) == 0 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, name := range files {
		b, err := os.ReadFile(filepath.Join("../../testdata/matrix", strings.TrimSuffix(filepath.Base(name), ".expect")+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var column struct {
			Cells []struct{ Case, Verdict string }
		}
		if err := json.Unmarshal(b, &column); err != nil {
			t.Fatal(err)
		}
		got := make(map[string]string)
		for _, c := range column.Cells {
			got[c.Case] = c.Verdict
		}
		want, err := readProbeExpect(name, func(c string) bool { return got[c] != "" })
		if err != nil {
			t.Fatal(err)
		}
		var diff strings.Builder
		if want.diff(&diff, name, got) || len(got) < 80 {
			t.Errorf("%d cells: %s", len(got), &diff)
		}
	}
}
