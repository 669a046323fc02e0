package main

import (
	"go/ast"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// adversaryRows is the number of fault classes, all of which must be in docs/adversary.md.
const adversaryRows = 29

var (
	adversaryRow  = regexp.MustCompile(`(?m)^\| (\d+) \|([^|]*)\|$`)
	adversaryTest = regexp.MustCompile("`([^`]*)`")
	adversaryName = regexp.MustCompile(`(?m)^(\d+) (\S+)$`)
)

// TestAdversary: every fault class has its row with a description, testdata/adversary.txt names tests for it, and these
// exist.
func TestAdversary(t *testing.T) {
	b, err := os.ReadFile("../docs/adversary.md")
	check(t, err)
	var rows []int
	for _, m := range adversaryRow.FindAllStringSubmatch(string(b), -1) {
		row, _ := strconv.Atoi(m[1])
		rows = append(rows, row)
		if len(strings.Fields(m[2])) < 5 {
			t.Errorf("row %d does not say what the fault is", row)
		}
	}
	for row := 1; row <= adversaryRows; row++ {
		if row > len(rows) || rows[row-1] != row {
			t.Fatalf("rows %v, want 1 to %d", rows, adversaryRows)
		}
	}
	if b, err = os.ReadFile("testdata/adversary.txt"); err != nil {
		t.Fatal(err)
	}
	known, guards := testFunctions(t), make(map[int]int)
	for _, m := range adversaryName.FindAllStringSubmatch(string(b), -1) {
		row, _ := strconv.Atoi(m[1])
		guards[row]++
		if !known[m[2]] {
			t.Errorf("row %d: there is no test %s", row, m[2])
		}
	}
	for _, row := range rows {
		if n := guards[row]; n == 0 || n > 3 {
			t.Errorf("row %d has %d tests in testdata/adversary.txt, want one to three", row, n)
		}
	}
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
