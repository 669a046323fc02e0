package coverage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Result is the outcome for a mutant.
type Result struct {
	Mutant
	Survived []string `json:"survived"` // rows none of whose tests failed
}

// Caught reports whether every row has a test that failed.
func (r *Result) Caught() bool { return len(r.Survived) == 0 }

// String returns one line: "caught", or "NOT CAUGHT" with the rows.
func (r *Result) String() string {
	if r.Caught() {
		return fmt.Sprintf("caught      %-22s %s: %s", r.Name, r.Breaks, strings.Join(r.Rows, ", "))
	}
	return fmt.Sprintf("NOT CAUGHT  %-22s %s: no test fails for %s", r.Name, r.Breaks, strings.Join(r.Survived, ", "))
}

// Try builds the tests of the module at root once, with the tag stagmutant. For each mutant it runs the
// tests that tags name for its rows, with that mutant switched on, and calls each with the result. Without a
// mutant these tests must pass; if they do not, or if a test gives no verdict, Try returns an error. The go
// command must be in the path.
func Try(ctx context.Context, root string, ms []Mutant, tags []Tag, each func(*Result)) error {
	dir, err := os.MkdirTemp("", "stagmutant")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	t := &trial{ctx: ctx, root: root, dir: dir, binaries: make(map[string]string)}
	all := make(plan)
	for i := range ms {
		all.add(&ms[i], tags)
	}
	failed, err := t.run("", all)
	if err != nil {
		return err
	}
	if len(failed) > 0 {
		return fmt.Errorf("without a mutant these fail too: %s", strings.Join(slices.Sorted(maps.Keys(failed)), ", "))
	}
	for i := range ms {
		p := make(plan)
		p.add(&ms[i], tags)
		if failed, err = t.run(ms[i].Name, p); err != nil {
			return fmt.Errorf("mutant %s: %w", ms[i].Name, err)
		}
		each(verdict(&ms[i], tags, failed))
	}
	return nil
}

// verdict finds the rows for which no test failed.
func verdict(m *Mutant, tags []Tag, failed map[string]bool) *Result {
	r := &Result{Mutant: *m, Survived: []string{}}
	for _, row := range m.Rows {
		if !slices.ContainsFunc(tags, func(t Tag) bool { return t.proves(m, row) && failed[t.Name()] }) {
			r.Survived = append(r.Survived, row)
		}
	}
	return r
}

func (t *Tag) proves(m *Mutant, row string) bool { return t.Spec == m.Spec && t.Row == row }

// function is a test function of a package.
type function struct{ pkg, name string }

// plan is what to run: test functions with their subtests; "" is the function itself.
type plan map[function][]string

func (p plan) add(m *Mutant, tags []Tag) {
	for _, t := range tags {
		if slices.ContainsFunc(m.Rows, func(row string) bool { return t.proves(m, row) }) {
			name, sub, _ := strings.Cut(t.Test, "/")
			f := function{t.Package, name}
			p[f] = append(p[f], sub)
		}
	}
}

// pattern returns the argument of -test.run.
func (f function) pattern(subs []string) string {
	p := "^" + f.name + "$"
	if slices.Contains(subs, "") {
		return p
	}
	quoted := make([]string, len(subs))
	for i, s := range subs {
		quoted[i] = regexp.QuoteMeta(s)
	}
	return p + "/^(" + strings.Join(quoted, "|") + ")$"
}

// trial runs tests with mutants.
type trial struct {
	ctx       context.Context
	root, dir string
	binaries  map[string]string // by package
}

// run runs the tests of p, each function in its own process, because a mutant may end the process, and
// returns the names of those that failed.
func (t *trial) run(mutant string, p plan) (failed map[string]bool, err error) {
	failed = make(map[string]bool)
	for f, subs := range p {
		bin, err := t.binary(f.pkg)
		if err != nil {
			return nil, err
		}
		cmd := exec.CommandContext(t.ctx, bin, "-test.run", f.pattern(subs), "-test.timeout", "30s")
		cmd.Dir = filepath.Join(t.root, filepath.FromSlash(f.pkg))
		cmd.Env = append(os.Environ(), "STAG_MUTANT="+mutant)
		out, err := cmd.CombinedOutput()
		names := failures(out)
		if err != nil && len(names) == 0 {
			return nil, fmt.Errorf("%s.%s gives no verdict: %w: %s", f.pkg, f.name, err, lastLine(out))
		}
		for _, n := range names {
			failed[f.pkg+"."+n] = true
		}
	}
	return failed, nil
}

// binary builds the tests of a package, once.
func (t *trial) binary(pkg string) (string, error) {
	if t.binaries[pkg] != "" {
		return t.binaries[pkg], nil
	}
	bin := filepath.Join(t.dir, path.Base(pkg)+fmt.Sprint(len(t.binaries))+".test")
	cmd := exec.CommandContext(t.ctx, "go", "test", "-c", "-tags", "stagmutant", "-o", bin, "./"+pkg)
	cmd.Dir = t.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	t.binaries[pkg] = bin
	return bin, nil
}

var failLine = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// failures returns the names of the tests that go test reports as failed.
func failures(out []byte) (names []string) {
	for _, m := range failLine.FindAllSubmatch(out, -1) {
		names = append(names, string(m[1]))
	}
	return names
}

func lastLine(out []byte) string {
	out = bytes.TrimSpace(out)
	return string(out[bytes.LastIndexByte(out, '\n')+1:])
}
