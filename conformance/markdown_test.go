package main

import (
	"go/ast"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	mdFence   = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```")
	mdInline  = regexp.MustCompile("`([^`]+)`")
	mdLink    = regexp.MustCompile(`\]\(([^)\s]*)\)`)
	mdHeading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	mdMake    = regexp.MustCompile(`^make ([a-z0-9-]+)`)
	mdName    = regexp.MustCompile(`\b[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*\b`)
	mdPackage = regexp.MustCompile(`^go (?:run|doc|test) .*?(\./[\w/-]+)`)
)

// markdown returns the Markdown files of the tree by their paths from its root.
func markdown(t *testing.T) map[string]string {
	t.Helper()
	files := make(map[string]string)
	root := os.DirFS("..")
	err := fs.WalkDir(root, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".md" || strings.Contains(name, "testdata") || strings.HasPrefix(name, "dist/") {
			return err
		}
		b, err := fs.ReadFile(root, name)
		files[name] = string(b)
		return err
	})
	check(t, err)
	return files
}

// TestMarkdownLinks: links between our pages lead to a file, and to a heading in it. Those of the pages in the package lead
// to what is in the package.
func TestMarkdownLinks(t *testing.T) {
	files := markdown(t)
	b := must(os.ReadFile("../packaging/nfpm.yaml"))(t)
	packaged := func(name string) bool { return strings.Contains(string(b), "src: "+name+",") }
	for name, text := range files {
		for _, m := range mdLink.FindAllStringSubmatch(mdFence.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			to := filepath.Join(filepath.Dir(name), path)
			if path == "" {
				to = name
			}
			if packaged(name) && !packaged(to) {
				t.Errorf("%s: %s: it is not in the package (packaging/nfpm.yaml)", name, m[1])
			}
			b, err := os.ReadFile(filepath.Join("..", to))
			if info, e := os.Stat(filepath.Join("..", to)); err != nil && (e != nil || !info.IsDir()) {
				t.Errorf("%s: %s: %v", name, m[1], err)
			}
			if anchor != "" && !slices.Contains(anchors(files[to]), anchor) && !strings.Contains(string(b), `id="`+anchor+`"`) {
				t.Errorf("%s: %s: no such heading", name, m[1])
			}
		}
	}
}

// anchors returns the names by which links find the headings of a page.
func anchors(text string) (all []string) {
	drop := regexp.MustCompile(`[^\w -]`)
	for _, m := range mdHeading.FindAllStringSubmatch(mdFence.ReplaceAllString(text, ""), -1) {
		all = append(all, strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return all
}

// TestMarkdownCommands: the targets of make, the packages, and the commands and flags that our pages name exist.
func TestMarkdownCommands(t *testing.T) {
	b := must(os.ReadFile("../Makefile"))(t)
	makefile, programs := "\n"+string(b), commands()
	for name, text := range markdown(t) {
		for _, s := range snippets(text) {
			if m := mdMake.FindStringSubmatch(s); m != nil && !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s: %s: no such target", name, s)
			}
			if m := mdPackage.FindStringSubmatch(s); m != nil {
				if _, err := os.Stat(filepath.Join("..", m[1])); err != nil {
					t.Errorf("%s: %s: %v", name, s, err)
				}
			}
			if ours, right := runs(programs, s); ours && !right {
				t.Errorf("%s: %s: no such command or flag", name, s)
			}
		}
	}
}

// TestMarkdownNames: what looks like a file of Go in our pages, or like the name of an identifier, is one. Those of
// findings.md are in code of others.
func TestMarkdownNames(t *testing.T) {
	known := make(map[string]bool)
	for _, p := range sources(t) {
		for _, f := range slices.Concat(slices.Collect(maps.Values(p.files)), p.tests) {
			ast.Inspect(f, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					known[id.Name] = true
				}
				return true
			})
		}
	}
	for name, text := range markdown(t) {
		if name == "docs/findings.md" {
			continue
		}
		for _, m := range mdInline.FindAllStringSubmatch(mdFence.ReplaceAllString(text, ""), -1) {
			if path.Ext(m[1]) == ".go" && strings.Contains(m[1], "/") && !strings.Contains(m[1], "*") {
				if _, err := os.Stat(filepath.Join("..", m[1])); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			if strings.ContainsAny(m[1], " /-$<:") {
				continue // a command, a path, a template
			}
			for _, id := range mdName.FindAllString(m[1], -1) {
				if !known[id] {
					t.Errorf("%s: `%s`: no such name", name, m[1])
				}
			}
		}
	}
}

// snippets returns the pieces of code in a page: the lines of its blocks, and the code in its text.
func snippets(text string) (all []string) {
	for _, m := range mdFence.FindAllStringSubmatch(text, -1) {
		if m[1] == "" {
			for line := range strings.Lines(m[2]) {
				all = append(all, strings.TrimPrefix(strings.TrimSpace(line), "$ "))
			}
		}
	}
	for _, m := range mdInline.FindAllStringSubmatch(mdFence.ReplaceAllString(text, ""), -1) {
		all = append(all, strings.Join(strings.Fields(m[1]), " "))
	}
	return all
}

// TestReadmeProgram runs the program of the README, which must print what its last comment says.
func TestReadmeProgram(t *testing.T) {
	b := must(os.ReadFile("../README.md"))(t)
	for _, m := range mdFence.FindAllStringSubmatch(string(b), -1) {
		if m[1] != "go" {
			continue
		}
		file := filepath.Join(t.TempDir(), "main.go")
		check(t, os.WriteFile(file, []byte(m[2]), 0o600))
		cmd := exec.CommandContext(t.Context(), "go", "run", file)
		cmd.Dir = ".."
		out, err := cmd.CombinedOutput()
		want := m[2][strings.LastIndex(m[2], "// ")+3:]
		if want, _, _ = strings.Cut(want, "\n"); err != nil || string(out) != want+"\n" {
			t.Errorf("%v: %q, want %q", err, out, want)
		}
		return
	}
	t.Error("no program in the README")
}

// TestGuides: the code of a page is that of its example, in its order.
func TestGuides(t *testing.T) {
	guide(t, "../docs/service.md", "../transport/examples/kv/main.go", 5)
	guide(t, "../docs/push.md", "../transport/push/example_test.go", 2)
}

// guide compares a page, of at least so many blocks of code, with its example.
func guide(t *testing.T, file, example string, least int) {
	t.Helper()
	page := must(os.ReadFile(file))(t)
	code := must(os.ReadFile(example))(t)
	rest, blocks := string(code), 0
	for _, m := range mdFence.FindAllStringSubmatch(string(page), -1) {
		if m[1] != "go" {
			continue
		}
		blocks++
		var ok bool
		if _, rest, ok = strings.Cut(rest, m[2]); !ok {
			t.Fatalf("not in the example, or not here:\n%s", m[2])
		}
	}
	if blocks < least {
		t.Errorf("%s: %d blocks of code", file, blocks)
	}
}
