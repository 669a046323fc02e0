package main

import (
	"go/ast"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/probe"
)

// adversaryRows is the number of fault classes, all of which must be in docs/adversary.md.
const adversaryRows = 29

var (
	adversaryRow  = regexp.MustCompile(`(?m)^\| (\d+) \|([^|]*)\|([^|]*)\|$`)
	adversaryTest = regexp.MustCompile("`([^`]*)`")
	adversaryCase = regexp.MustCompile(`Probe: ([a-z0-9/, -]+) $`)
)

// TestAdversary: every fault class has its row, with a description and tests, and every named test exists in
// the named package.
func TestAdversary(t *testing.T) {
	b, err := os.ReadFile("../docs/adversary.md")
	if err != nil {
		t.Fatal(err)
	}
	known, live := testFunctions(t), probeCases()
	var rows []int
	for _, m := range adversaryRow.FindAllStringSubmatch(string(b), -1) {
		row, _ := strconv.Atoi(m[1])
		if slices.Contains(rows, row) {
			t.Errorf("row %d twice", row)
		}
		rows = append(rows, row)
		if len(strings.Fields(m[2])) < 5 {
			t.Errorf("row %d does not say what the fault is", row)
		}
		names := adversaryTest.FindAllStringSubmatch(m[3], -1)
		if len(names) == 0 {
			t.Errorf("row %d names no test", row)
		}
		for _, n := range names {
			if !known[n[1]] {
				t.Errorf("row %d: there is no test %s", row, n[1])
			}
		}
	}
	for _, m := range adversaryRow.FindAllStringSubmatch(string(b), -1) {
		row, _ := strconv.Atoi(m[1])
		said := ""
		if c := adversaryCase.FindStringSubmatch(m[3]); c != nil {
			said = c[1]
		}
		if want := strings.Join(live[row], ", "); said != want {
			t.Errorf("row %d names the probe's cases %q, want %q", row, said, want)
		}
	}
	for row := 1; row <= adversaryRows; row++ {
		if !slices.Contains(rows, row) {
			t.Errorf("no row %d", row)
		}
	}
	if !slices.IsSorted(rows) {
		t.Errorf("rows are out of order: %v", rows)
	}
}

// probeCases returns the cases of conformance probe by the row they are for.
func probeCases() map[int][]string {
	rows := make(map[int][]string)
	for _, c := range new(probe.Prober).Cases() {
		for _, r := range c.Rows {
			rows[r] = append(rows[r], c.Name)
		}
	}
	return rows
}

// testFunctions returns the tests and fuzz targets of the module, as rdmap/mpa.TestCRC.
func testFunctions(t *testing.T) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	for _, p := range sources(t) {
		for _, f := range p.tests {
			for _, decl := range f.Decls {
				d, ok := decl.(*ast.FuncDecl)
				if ok && d.Recv == nil && (strings.HasPrefix(d.Name.Name, "Test") || strings.HasPrefix(d.Name.Name, "Fuzz")) {
					names[p.short()+"."+d.Name.Name] = true
				}
			}
		}
	}
	return names
}
