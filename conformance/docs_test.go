package main

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// parsed is the source of one package, tests included.
type parsed struct {
	*goPackage
	fset  *token.FileSet
	files map[string]*ast.File // by base name; without tests
	tests []*ast.File
}

// all holds the result of sources.
var all []*parsed

// sources parses the packages of the module once, with the files for the machine that runs the test.
func sources(t *testing.T) []*parsed {
	t.Helper()
	if all != nil {
		return all
	}
	for _, p := range goList(t, nil, "./...") {
		s := &parsed{goPackage: p, fset: token.NewFileSet(), files: make(map[string]*ast.File)}
		names := must(filepath.Glob(filepath.Join(p.Dir, "*.go")))(t)
		for _, name := range names {
			f := must(parser.ParseFile(s.fset, name, nil, parser.ParseComments))(t)
			base := filepath.Base(name)
			switch {
			case strings.HasSuffix(base, "_test.go"):
				s.tests = append(s.tests, f)
			case slices.Contains(p.GoFiles, base):
				s.files[base] = f
			}
		}
		all = append(all, s)
	}
	return all
}

// TestArchitecture: docs/architecture.md names every package that others can import, by its path or the last
// two parts of its path.
func TestArchitecture(t *testing.T) {
	b := must(os.ReadFile("../docs/architecture.md"))(t)
	for _, p := range sources(t) {
		name := p.short()
		last := name
		if parts := strings.Split(name, "/"); len(parts) > 2 {
			last = strings.Join(parts[len(parts)-2:], "/")
		}
		if strings.Contains(name, "/internal/") || strings.Contains(string(b), "`"+name+"`") || strings.Contains(string(b), "`"+last+"`") {
			continue
		}
		t.Errorf("docs/architecture.md does not name %s", name)
	}
}

// TestDocFiles: every package has one package comment.
func TestDocFiles(t *testing.T) {
	for _, p := range sources(t) {
		commented := 0
		for _, f := range p.files {
			if f.Doc != nil {
				commented++
			}
		}
		if commented != 1 && len(p.files) > 0 {
			t.Errorf("%s: %d package comments", p.short(), commented)
		}
	}
}

// TestEveryExportedIdentifierIsDocumented looks at constants, variables, types, functions and methods. Names
// of one group may share its comment, and a method has that of an interface of its package. Fields are left to the
// reader: often the table above describes those of a wire format.
func TestEveryExportedIdentifierIsDocumented(t *testing.T) {
	for _, p := range sources(t) {
		said := map[string]bool{"Code": true} // as xdr.Message says
		for _, f := range p.files {
			ast.Inspect(f, func(n ast.Node) bool {
				if i, ok := n.(*ast.InterfaceType); ok {
					for _, m := range i.Methods.List {
						for _, id := range m.Names {
							said[id.Name] = said[id.Name] || m.Doc != nil
						}
					}
				}
				return true
			})
		}
		for _, f := range p.files {
			for _, decl := range f.Decls {
				switch d := decl.(type) {
				case *ast.FuncDecl:
					if d.Name.IsExported() && exportedReceiver(d) && d.Doc == nil && (d.Recv == nil || !said[d.Name.Name]) {
						t.Errorf("%v: %s is not documented", p.fset.Position(d.Pos()), d.Name)
					}
				case *ast.GenDecl:
					undocumented(d, func(id *ast.Ident) {
						t.Errorf("%v: %s is not documented", p.fset.Position(id.Pos()), id)
					})
				}
			}
		}
	}
}

// exportedReceiver reports whether d is a function, or a method of an exported type.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	typ := d.Recv.List[0].Type
	if s, ok := typ.(*ast.StarExpr); ok {
		typ = s.X
	}
	if x, ok := typ.(*ast.IndexExpr); ok {
		typ = x.X
	}
	id, ok := typ.(*ast.Ident)
	return ok && id.IsExported()
}

// undocumented calls report for the exported names of a declaration that have no comment.
func undocumented(d *ast.GenDecl, report func(*ast.Ident)) {
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.ValueSpec:
			for _, id := range s.Names {
				if id.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
					report(id)
				}
			}
		case *ast.TypeSpec:
			if !s.Name.IsExported() {
				continue
			}
			if d.Doc == nil && s.Doc == nil && s.Comment == nil {
				report(s.Name)
			}
		}
	}
}

// TestExamples: every package that exports functions, and with which a program may begin, shows how to use them, in
// examples whose output is checked and that still run when they are copied elsewhere: they qualify the names of their
// package, and use no helpers of another file. Internal packages are exempt.
func TestExamples(t *testing.T) {
	for _, p := range sources(t) {
		if p.Name == "main" || strings.Contains("/"+p.short(), "/internal/") || !exportsFunctions(p) || noExample[p.short()] != "" {
			continue
		}
		checked := 0
		for _, ex := range doc.Examples(p.tests...) {
			if ex.Output != "" || ex.EmptyOutput {
				checked++
			}
			if ex.Play == nil {
				t.Errorf("%s: Example%s needs something that a reader does not see", p.short(), ex.Name)
			}
		}
		if checked == 0 {
			t.Errorf("%s: no Example with // Output:", p.short())
		}
	}
}

// noExample lists packages without examples, and why.
var noExample = map[string]string{
	"chunks": ofTransport, "credits": ofTransport, "rpcrdma": ofTransport,
	"rdmap/ddp": ofConn, "rdmap/mpa": ofConn, "rdmap/region": ofConn, "rdmap/verbs": ofConn,
	"nfsdemo/nfs3": ofServer, "nfsdemo/mount3": ofServer, "nfsdemo/backend": ofServer,
	"nfsdemo/backend/backendtest": "a suite of tests, used by tests", "rdmap/region/pmem/pmemtest": "the same",
}

const (
	ofTransport = "a layer that programs use by way of transport, which has examples"
	ofConn      = "a layer that programs use by way of rdmap, which has examples"
	ofServer    = "types that programs use with the server, the client and the backends, which have examples"
)

func exportsFunctions(p *parsed) bool {
	for _, f := range p.files {
		for _, decl := range f.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && d.Recv == nil && d.Name.IsExported() {
				return true
			}
		}
	}
	return false
}

// TestPurePackagesOnlyCompute looks for go statements in the pure layers, and for what of package time is no type or
// constant: time comes in as an argument.
func TestPurePackagesOnlyCompute(t *testing.T) {
	for _, p := range sources(t) {
		l := layerOf(p.short())
		if l == nil || !l.pure {
			continue
		}
		for _, f := range p.files {
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					t.Errorf("%v: a goroutine in a pure package", p.fset.Position(n.Pos()))
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && !slices.Contains([]string{"Time", "Duration"}, n.Sel.Name) {
						t.Errorf("%v: a pure package uses time.%s", p.fset.Position(n.Pos()), n.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

// marks are words that do not belong in finished source, and references not in the form by which all can be
// found: RFC 5041 Section 4.3.
var marks = regexp.MustCompile(`TODO|FIXME|XXX|HACK|RFC ?\d{4},? ?(§|[Ss]ec\.|section |Sec )`)

// TestMarks reads all Go files of the tree.
func TestMarks(t *testing.T) {
	err := filepath.WalkDir("..", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && strings.HasPrefix(e.Name(), ".") && e.Name() != ".." {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(name, ".go") || e.Name() == "docs_test.go" {
			return nil
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(b), "\n") {
			if m := marks.FindString(line); m != "" {
				t.Errorf("%s:%d: %q", name, i+1, m)
			}
		}
		return nil
	})
	check(t, err)
}
