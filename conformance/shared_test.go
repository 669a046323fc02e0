package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSharedLocks: where connections share something, every lock is released by a defer, so that a panic of a handler,
// which costs its call, never leaves one held.
func TestSharedLocks(t *testing.T) {
	seen := 0
	for _, of := range []string{
		"transport/internal/admit/*.go", "transport/internal/execute/*.go", "transport/push/server*.go", "transport/replies/pusher.go",
		"nfsdemo/backend/mem/*.go", "nfsdemo/backend/dir/*.go", "nfsdemo/internal/lockd/*.go",
	} {
		files := must(filepath.Glob(filepath.Join("..", of)))(t)
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			src := must(os.ReadFile(name))(t)
			fset := token.NewFileSet()
			f := must(parser.ParseFile(fset, name, src, 0))(t)
			ast.Inspect(f, func(n ast.Node) bool {
				block, ok := n.(*ast.BlockStmt)
				if !ok {
					return true
				}
				for i, stmt := range block.List {
					if !isLock(stmt) {
						continue
					}
					seen++
					if i+1 == len(block.List) {
						t.Errorf("%s: a lock at the end of a block", fset.Position(stmt.Pos()))
					} else if _, ok := block.List[i+1].(*ast.DeferStmt); !ok {
						t.Errorf("%s: the lock is not released by a defer", fset.Position(stmt.Pos()))
					}
				}
				return true
			})
		}
	}
	if seen < 120 {
		t.Errorf("only %d locks found", seen)
	}
}

func isLock(s ast.Stmt) bool {
	e, ok := s.(*ast.ExprStmt)
	if !ok {
		return false
	}
	c, ok := e.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := c.Fun.(*ast.SelectorExpr)
	return ok && (sel.Sel.Name == "Lock" || sel.Sel.Name == "RLock")
}
