package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// module is this module, and counter the package that counts in instrumented
// programs; it exists in overlays only.
const (
	module  = "github.com/stag-rdma/stag"
	counter = module + "/nfsdemo/copycount"
)

// listed is what "go list" says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Imports                 []string
}

// goList lists packages with all they import, each after its imports, with their
// compiled form.
func goList(patterns ...string) ([]*listed, error) {
	args := append([]string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Imports"}, patterns...)
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		if ee, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, ee.Stderr)
		}
		return nil, err
	}
	var list []*listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := new(listed)
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
}

// instrumenter rewrites the packages of this module so that they count the octets
// they copy.
type instrumenter struct {
	fset *token.FileSet
	imp  types.Importer
	dir  string            // rewritten files go here
	over map[string]string // "go build -overlay"
	site []string          // places rewritten, as file:line
}

// newInstrumenter rewrites all packages of the module in list.
func newInstrumenter(dir string, list []*listed) (*instrumenter, error) {
	export := make(map[string]string)
	for _, p := range list {
		export[p.ImportPath] = p.Export
	}
	in := &instrumenter{fset: token.NewFileSet(), dir: dir, over: make(map[string]string)}
	in.imp = importer.ForCompiler(in.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(export[path]) })
	for _, p := range list {
		if strings.HasPrefix(p.ImportPath, module) {
			if err := in.packet(p); err != nil {
				return nil, fmt.Errorf("%s: %w", p.ImportPath, err)
			}
		}
	}
	return in, nil
}

// packet rewrites one package.
func (in *instrumenter) packet(p *listed) error {
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(in.fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	info := &types.Info{Types: make(map[ast.Expr]types.TypeAndValue), Uses: make(map[*ast.Ident]types.Object)}
	cfg := types.Config{Importer: in.imp}
	if _, err := cfg.Check(p.ImportPath, in.fset, files, info); err != nil {
		return err
	}
	for i, f := range files {
		if err := in.file(filepath.Join(p.Dir, p.GoFiles[i]), f, info); err != nil {
			return err
		}
	}
	return nil
}

// edit replaces the octets [from, to) of a file.
type edit struct {
	from, to int
	text     string
}

// file rewrites one file, if it copies anything.
func (in *instrumenter) file(name string, f *ast.File, info *types.Info) error {
	var edits []edit
	at := func(p token.Pos) int { return in.fset.Position(p).Offset }
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if by := standIn(call, info); by != "" {
			pos := in.fset.Position(call.Pos())
			in.site = append(in.site, fmt.Sprintf("%s/%s:%d", f.Name.Name, filepath.Base(pos.Filename), pos.Line))
			edits = append(edits, edit{at(call.Fun.Pos()), at(call.Lparen) + 1, fmt.Sprintf("copycount.%s(%d, ", by, len(in.site)-1)})
			if call.Ellipsis.IsValid() {
				edits = append(edits, edit{at(call.Ellipsis), at(call.Ellipsis) + len("..."), ""})
			}
		}
		return true
	})
	if len(edits) == 0 {
		return nil
	}
	edits = append(edits, edit{at(f.Name.End()), at(f.Name.End()), "; import copycount " + `"` + counter + `"`})
	slices.SortFunc(edits, func(a, b edit) int { return b.from - a.from })
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	for _, e := range edits {
		text = slices.Concat(text[:e.from], []byte(e.text), text[e.to:])
	}
	return in.add(name, append(text, keepImports(f, info)...))
}

// standIn names the function that counts for a call; "" for calls that copy no
// octets.
func standIn(call *ast.CallExpr, info *types.Info) string {
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		if _, ok := info.Uses[fun].(*types.Builtin); !ok {
			break
		}
		switch {
		case fun.Name == "copy" && isOctets(info, call.Args[0]):
			return "Copy"
		case fun.Name == "append" && call.Ellipsis.IsValid() && isOctets(info, call.Args[0]):
			return "Append"
		}
		return ""
	case *ast.SelectorExpr:
		f, ok := info.Uses[fun.Sel].(*types.Func)
		if ok && f.Name() == "Clone" && (f.Pkg().Path() == "bytes" || f.Pkg().Path() == "slices") && isOctets(info, call.Args[0]) {
			return "Clone"
		}
		return ""
	}
	return conversion(call, info)
}

// conversion is standIn for string(b) and []byte(s).
func conversion(call *ast.CallExpr, info *types.Info) string {
	tv := info.Types[call.Fun]
	if !tv.IsType() || len(call.Args) != 1 || info.Types[call.Args[0]].Value != nil {
		return ""
	}
	_, toString := types.Unalias(tv.Type).(*types.Basic)
	from := info.Types[call.Args[0]].Type
	switch {
	case toString && tv.Type == types.Typ[types.String] && octets(from):
		return "String"
	case types.Identical(tv.Type, types.NewSlice(types.Typ[types.Byte])):
		if b, ok := from.Underlying().(*types.Basic); ok && b.Info()&types.IsString != 0 {
			return "Bytes"
		}
	}
	return ""
}

// isOctets reports whether an expression is a slice of octets.
func isOctets(info *types.Info, e ast.Expr) bool {
	tv, ok := info.Types[e]
	return ok && octets(tv.Type)
}

// octets reports whether t is a slice of octets. A nil without type is one too
// little to copy to.
func octets(t types.Type) bool {
	s, ok := t.Underlying().(*types.Slice)
	if !ok {
		return false
	}
	b, ok := s.Elem().Underlying().(*types.Basic)
	return ok && b.Kind() == types.Byte
}

// keepImports uses every imported package that a rewritten Clone may have been the
// only user of.
func keepImports(f *ast.File, _ *types.Info) []byte {
	var b strings.Builder
	for _, imp := range f.Imports {
		switch imp.Path.Value {
		case `"bytes"`:
			b.WriteString("\nvar _ = bytes.MinRead\n")
		case `"slices"`:
			b.WriteString("\nvar _ = slices.Contains[[]int]\n")
		}
	}
	return []byte(b.String())
}

// add puts a file in the overlay.
func (in *instrumenter) add(name string, text []byte) error {
	at := filepath.Join(in.dir, fmt.Sprintf("%d-%s", len(in.over), filepath.Base(name)))
	in.over[name] = at
	return os.WriteFile(at, text, 0o600)
}

// build compiles a main package of the overlay.
func (in *instrumenter) build(pkg, bin string) error {
	text, err := json.Marshal(map[string]any{"Replace": in.over})
	if err != nil {
		return err
	}
	overlay := filepath.Join(in.dir, "overlay.json")
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return err
	}
	out, err := exec.Command("go", "build", "-overlay", overlay, "-ldflags=-s -w", "-o", bin, pkg).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
