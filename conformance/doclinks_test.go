package main

import (
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// bracketed is an identifier in brackets, as in a link of a doc comment.
var bracketed = regexp.MustCompile(`\[\*?([a-z]\w*\.)?[A-Z]\w*(\.\w+)?\]`)

// TestDocLinks: what looks like a link in a doc comment is one. If the name does not exist, or a letter
// follows the bracket, a reader sees brackets.
func TestDocLinks(t *testing.T) {
	for _, p := range sources(t) {
		if strings.Contains(p.short(), "internal/") || len(p.files) == 0 {
			continue
		}
		var files []*ast.File
		for _, name := range p.GoFiles {
			files = append(files, p.files[name])
		}
		pkg := must(doc.NewFromFiles(p.fset, files, p.ImportPath, doc.PreserveAST))(t)
		for name, text := range docs(pkg) {
			for _, plain := range plains(pkg.Parser().Parse(text).Content) {
				for _, s := range bracketed.FindAllString(plain, -1) {
					t.Errorf("%s: %s: %s is not a link", p.short(), name, s)
				}
			}
		}
	}
}

// docs returns the doc comments of a package by the names they document.
func docs(p *doc.Package) map[string]string {
	all := map[string]string{"the package": p.Doc}
	values := func(v *doc.Value) { all[strings.Join(v.Names, ", ")] = v.Doc }
	funcs := func(f *doc.Func) { all[strings.TrimPrefix(f.Recv+"."+f.Name, ".")] = f.Doc }
	for _, v := range slices.Concat(p.Consts, p.Vars) {
		values(v)
	}
	for _, f := range p.Funcs {
		funcs(f)
	}
	for _, typ := range p.Types {
		all[typ.Name] = typ.Doc
		for _, v := range slices.Concat(typ.Consts, typ.Vars) {
			values(v)
		}
		for _, f := range slices.Concat(typ.Funcs, typ.Methods) {
			funcs(f)
		}
	}
	return all
}

// plains returns the text outside of links and code blocks.
func plains(blocks []comment.Block) (all []string) {
	text := func(list []comment.Text) {
		for _, x := range list {
			if s, ok := x.(comment.Plain); ok {
				all = append(all, string(s))
			}
		}
	}
	for _, b := range blocks {
		switch b := b.(type) {
		case *comment.Paragraph:
			text(b.Text)
		case *comment.Heading:
			text(b.Text)
		case *comment.List:
			for _, it := range b.Items {
				all = append(all, plains(it.Content)...)
			}
		}
	}
	return all
}
