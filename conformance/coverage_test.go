package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestCoverage: every rule of order has a test that names it, and every test names rules that exist. A test names one by
// the comment "// spec: rdmap 7.4 response", or by spec: in a table.
func TestCoverage(t *testing.T) {
	b := must(os.ReadFile("testdata/order.tsv"))(t)
	tests := make(map[string]int)
	for line := range strings.Lines(string(b)) {
		if f := strings.Split(line, "\t"); len(f) == 3 && line[0] != '#' {
			tests[f[0]] = 0
		}
	}
	if len(tests) < 90 {
		t.Errorf("%d rules", len(tests))
	}
	for row, places := range specTags(t, os.DirFS("..")) {
		if _, ok := tests[row]; !ok {
			t.Errorf("%s: testdata/order.tsv has no row %q", strings.Join(places, ", "), row)
		}
		tests[row] = len(places)
	}
	for row, n := range tests {
		if n == 0 {
			t.Errorf("no test proves %q", row)
		}
	}
}

// specTags returns where the *_test.go files below fsys name rules. A tag outside a test proves nothing.
func specTags(t *testing.T, fsys fs.FS) map[string][]string {
	tags := make(map[string][]string)
	check(t, fs.WalkDir(fsys, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == "testdata" || name != "." && strings.ContainsRune("._", rune(e.Name()[0]))):
			return fs.SkipDir
		case e.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		src := must(fs.ReadFile(fsys, name))(t)
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, filepath.FromSlash(name), src, parser.ParseComments|parser.SkipObjectResolution)
		check(t, err)
		add := func(pos token.Pos, row string) {
			if !slices.ContainsFunc(f.Decls, func(d ast.Decl) bool {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Test") && !strings.HasPrefix(fn.Name.Name, "Fuzz") {
					return false
				}
				return pos < fn.End() && (pos >= fn.Pos() || fn.Doc != nil && pos >= fn.Doc.Pos())
			}) {
				t.Errorf("%s: %q belongs to no test: move it onto one, or into it", fset.Position(pos), row)
			}
			tags[strings.TrimSpace(row)] = append(tags[row], fset.Position(pos).String())
		}
		for _, g := range f.Comments {
			for _, c := range g.List {
				if row, ok := strings.CutPrefix(c.Text, "// spec: "); ok {
					add(c.Pos(), row)
				}
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			kv, _ := n.(*ast.KeyValueExpr)
			if kv == nil {
				return true
			}
			key, _ := kv.Key.(*ast.Ident)
			lit, _ := kv.Value.(*ast.BasicLit)
			if key != nil && key.Name == "spec" && lit != nil && lit.Kind == token.STRING {
				row, _ := strconv.Unquote(lit.Value) // the parser has checked it
				add(lit.Pos(), row)
			}
			return true
		})
		return nil
	}))
	return tags
}
