package coverage

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// Tag is a test's claim to prove a row.
type Tag struct {
	Spec    string `json:"-"`
	Row     string `json:"-"`
	Package string `json:"package"` // directory in the module, with slashes: "rdmap/mpa"
	Test    string `json:"test"`    // as go test prints it: "TestOrdering/rdmap_7.3_F-AW"
	File    string `json:"file"`    // path in the module, with slashes
	Line    int    `json:"line"`
}

// Name returns package and test: "rdmap.TestOrdering/rdmap_7.3_F-AW".
func (t *Tag) Name() string { return t.Package + "." + t.Test }

// Scan returns the tags in the *_test.go files of fsys, the root of the module: files in the order of their
// names, tags in the order of the file. It skips the directories that the go command skips. It returns an
// error for a file that cannot be read or is not Go, and for a tag that belongs to no test.
func Scan(fsys fs.FS) ([]Tag, error) {
	var tags []Tag
	err := fs.WalkDir(fsys, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && ignored(e.Name()):
			return fs.SkipDir
		case e.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		found, err := scanFile(fsys, name)
		tags = append(tags, found...)
		return err
	})
	return tags, err
}

// ignored reports whether the go command ignores directories of this name.
func ignored(name string) bool {
	return name == "testdata" || name != "." && (name[0] == '.' || name[0] == '_')
}

func scanFile(fsys fs.FS, name string) ([]Tag, error) {
	src, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, filepath.FromSlash(name), src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	s := scanner{fset: fset, file: f, name: name}
	for _, g := range f.Comments {
		for _, c := range g.List {
			if text, ok := strings.CutPrefix(c.Text, "// spec: "); ok {
				s.add(c.Pos(), text, "")
			}
		}
	}
	ast.Inspect(f, s.element)
	return s.tags, s.err
}

// scanner finds the tags of one file.
type scanner struct {
	fset *token.FileSet
	file *ast.File
	name string
	tags []Tag
	err  error
}

// element takes the field spec: "…" of an element of a table.
func (s *scanner) element(n ast.Node) bool {
	kv, ok := n.(*ast.KeyValueExpr)
	if !ok {
		return true
	}
	key, isName := kv.Key.(*ast.Ident)
	lit, isLit := kv.Value.(*ast.BasicLit)
	if isName && isLit && key.Name == "spec" && lit.Kind == token.STRING {
		text, _ := strconv.Unquote(lit.Value) // the parser has checked it
		s.add(lit.Pos(), text, "/"+strings.ReplaceAll(text, " ", "_"))
	}
	return true
}

// add adds the tag with the given text at pos; sub is the name of the subtest.
func (s *scanner) add(pos token.Pos, text, sub string) {
	at := s.fset.Position(pos)
	spec, row, _ := strings.Cut(strings.TrimSpace(text), " ")
	test := s.test(pos)
	if test == "" && s.err == nil {
		s.err = fmt.Errorf("%s:%d: the tag %q belongs to no test: move it onto one, or into it", s.name, at.Line, text)
	}
	s.tags = append(s.tags, Tag{
		Spec: spec, Row: row, Package: path.Dir(s.name), Test: test + sub, File: s.name, Line: at.Line,
	})
}

// test returns the name of the test to which pos belongs.
func (s *scanner) test(pos token.Pos) string {
	for _, d := range s.file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") && !strings.HasPrefix(f.Name.Name, "Fuzz") {
			continue
		}
		start := f.Pos()
		if f.Doc != nil {
			start = f.Doc.Pos()
		}
		if start <= pos && pos < f.End() {
			return f.Name.Name
		}
	}
	return ""
}
