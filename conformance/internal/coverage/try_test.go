package coverage

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const trialTest = `package p

import (
	"os"
	"testing"
)

func TestTable(t *testing.T) {
	for _, name := range []string{"r_1", "r_2"} {
		t.Run(name, func(t *testing.T) {
			if name == "r_1" && os.Getenv("STAG_MUTANT") == "one" || os.Getenv("STAG_MUTANT") == "panics" {
				panic("mutant")
			}
		})
	}
}

func TestOther(t *testing.T) {
	switch os.Getenv("STAG_MUTANT") {
	case "one":
		t.Error("caught")
	case "exits":
		os.Exit(3)
	}
}

func TestBroken(t *testing.T) { t.Error("always") }
`

// TestTry runs mutants of a module that consists of tests.
func TestTry(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module trial\n\ngo 1.26\n", "p/p.go": "package p\n", "p/p_test.go": "//go:build stagmutant\n\n" + trialTest,
	} {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	tags := []Tag{
		{Spec: "r", Row: "1", Package: "p", Test: "TestTable/r_1"},
		{Spec: "r", Row: "2", Package: "p", Test: "TestTable/r_2"},
		{Spec: "r", Row: "3", Package: "p", Test: "TestOther"},
		{Spec: "r", Row: "4", Package: "p", Test: "TestBroken"},
	}
	mutant := func(name string, rows ...string) Mutant { return Mutant{Name: name, Spec: "r", Rows: rows} }
	var got [][]string
	err := Try(t.Context(), root, []Mutant{
		mutant("one", "1", "3"), mutant("one", "1", "2", "3"), mutant("none", "1"), mutant("panics", "2"), mutant("one", "5"),
	}, tags, func(r *Result) {
		if r.Caught() != (len(r.Survived) == 0) {
			t.Errorf("caught: %v, survived %v", r.Caught(), r.Survived)
		}
		got = append(got, r.Survived)
	})
	if want := [][]string{{}, {"2"}, {"1"}, {}, {"5"}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("survived %v, want %v; %v", got, want, err)
	}
	for want, m := range map[string]Mutant{
		"mutant exits: p.TestOther gives no verdict: exit status 3: ": mutant("exits", "3"),
		"without a mutant these fail too: p.TestBroken":               mutant("one", "4"),
	} {
		err := Try(t.Context(), root, []Mutant{m}, tags, func(r *Result) { t.Errorf("a verdict: %v", r) })
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestResultLine(t *testing.T) {
	m := Mutant{Name: "fence", Breaks: "all waits", Rows: []string{"1 a", "2 b"}}
	for want, r := range map[string]Result{
		"caught      fence                  all waits: 1 a, 2 b":              {Mutant: m},
		"NOT CAUGHT  fence                  all waits: no test fails for 2 b": {Mutant: m, Survived: []string{"2 b"}},
	} {
		if got := r.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
