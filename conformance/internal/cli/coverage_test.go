package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// emptyCheckout is a checkout with one test, tagged as told.
func emptyCheckout(t *testing.T, tag string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module github.com/stag-rdma/stag\n",
		"x_test.go": "package x\n\n// spec: " + tag + "\nfunc TestX() {}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestCoverageExit(t *testing.T) {
	dir := emptyCheckout(t, "rdmap 7.9 none")
	for _, tt := range []struct {
		name   string
		args   []string
		status int
		stderr string
	}{
		{"this checkout", []string{"coverage", "--spec", "rdmap"}, 0, ""},
		{"rows without tests", []string{"coverage", "--root", dir}, 1, "conformance: no test is tagged with 7.1 Send-Send, "},
		{"unknown document", []string{"coverage", "--spec", "smb"}, 2, `conformance: --spec "smb": want commitlog or ddp or mpa`},
	} {
		status, out, stderr := run(t, nil, tt.args...)
		if status != tt.status || !strings.HasPrefix(stderr, tt.stderr) || tt.stderr == "" && stderr != "" {
			t.Errorf("%s: status %d, %s", tt.name, status, stderr)
		}
		if tt.status == 1 && (!strings.Contains(out, "NO TEST") || !strings.Contains(stderr, `x_test.go:3: rdmap has no row "7.9 none"`)) {
			t.Errorf("%s: %s, %s", tt.name, out, stderr)
		}
	}
	t.Chdir(filepath.Dir(dir))
	if status, _, stderr := run(t, nil, "coverage"); status != 2 || !strings.Contains(stderr, "is not in a checkout of stag") {
		t.Errorf("outside: status %d, %s", status, stderr)
	}
}

func TestCoverageJSON(t *testing.T) {
	status, out, _ := run(t, nil, "coverage", "--json")
	var got []struct {
		Spec      string
		Sentences []struct {
			Section, Says, Reason string
			Rules                 []string
		}
		Rows []struct {
			Row   string
			Tests []struct{ Test string }
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || status != 0 {
		t.Fatalf("status %d, %v: %s", status, err, out)
	}
	rows := 0
	for _, spec := range got {
		for _, r := range spec.Rows {
			if r.Row == "7.3 F-AW" && len(r.Tests) >= 3 {
				rows++
			}
		}
		if len(spec.Sentences) == 0 {
			t.Errorf("%s has no sentences", spec.Spec)
		}
		for _, s := range spec.Sentences {
			if s.Section == "" || s.Says == "" || (len(s.Rules) == 0) == (s.Reason == "") {
				t.Errorf("%s: %+v", spec.Spec, s)
			}
		}
	}
	if rows != 1 {
		t.Error("7.3 F-AW has no tests")
	}
}

func TestCoverageSentences(t *testing.T) {
	status, out, _ := run(t, nil, "coverage", "--spec", "mpa")
	if status != 0 || !strings.Contains(out, "mpa 5, in a trace\n") || !strings.Contains(out, "\n      MPA-031\n") ||
		!strings.Contains(out, "no rule: nothing to break") {
		t.Errorf("status %d: %s", status, out)
	}
}
