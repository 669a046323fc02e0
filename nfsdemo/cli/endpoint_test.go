package cli

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLocalTreeIsConfined plays a server that lists a symbolic link and then a
// directory of the same name: nothing may be written through the link.
func TestLocalTreeIsConfined(t *testing.T) {
	outside := t.TempDir()
	dst := must(openLocal(t.TempDir()))(t)
	defer dst.close()
	c := &copier{}
	sub := must(dst.sub(t.Context(), "copy", 0o755))(t)
	defer sub.close()
	noErr(t, sub.symlink(t.Context(), c, &source{name: "evil"}, outside))
	if deeper, err := sub.sub(t.Context(), "evil", 0o755); err == nil {
		deeper.close()
		t.Error("a directory was opened through a link that leads out")
	}
	local, ok := sub.(*localDir)
	if !ok {
		t.Fatal("not a local directory")
	}
	for _, name := range []string{"evil/x", "../x", "/x"} {
		if f, err := local.create(t.Context(), name, 0o644, false, &source{}, nil); err == nil {
			f.close(t.Context(), true)
			t.Errorf("%s was opened", name)
		}
	}
	if list, _ := os.ReadDir(outside); len(list) != 0 {
		t.Errorf("%d files were written outside", len(list))
	}
}

func TestLocalSymlinkIsReplaced(t *testing.T) {
	dst := must(openLocal(t.TempDir()))(t)
	defer dst.close()
	for _, tt := range []struct {
		to, want string
		keep     bool
	}{{"a", "a", false}, {"b", "b", false}, {"c", "b", true}} {
		noErr(t, dst.symlink(t.Context(), &copier{keep: tt.keep}, &source{name: "l"}, tt.to))
		if got, _ := os.Readlink(filepath.Join(dst.path, "l")); got != tt.want {
			t.Errorf("link to %q, want %q", got, tt.want)
		}
	}
	noErr(t, os.WriteFile(filepath.Join(dst.path, "file"), nil, 0o644))
	if err := dst.symlink(t.Context(), &copier{}, &source{name: "file"}, "x"); !errors.Is(err, os.ErrExist) {
		t.Errorf("over a file: got %v, want ErrExist", err)
	}
}

func TestLocalSource(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		noErr(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o640))
	}
	noErr(t, os.Symlink("a", filepath.Join(dir, "l")))
	src, err := localSource(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	var list []*source
	for s, e := range src.each(t.Context()) {
		list, err = append(list, s), errors.Join(err, e)
	}
	slices.SortFunc(list, func(a, b *source) int { return strings.Compare(a.name, b.name) })
	if err != nil || len(list) != 3 || list[0].name != "a" || list[0].size != 1 || !isLink(list[2].mode) {
		t.Fatalf("list = %+v, %v", list, err)
	}
	if to, err := list[2].link(t.Context()); to != "a" || err != nil {
		t.Errorf("link = %q, %v", to, err)
	}
	r, done, err := list[1].open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	buf := make([]byte, 1)
	if _, err := r.ReadAt(buf, 0); err != nil || string(buf) != "b" {
		t.Errorf("read %q, %v", buf, err)
	}
	if err := list[0].complete(0); !errors.Is(err, errChanged) {
		t.Errorf("a file that shrank: got %v", err)
	}
	if _, err := localSource(filepath.Join(dir, "none"), true); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want ErrNotExist", err)
	}
}

func TestCheckCopy(t *testing.T) {
	for _, tt := range []struct {
		from []string
		to   string
		want string // "" for none
	}{
		{[]string{"a"}, "nfs://h/x", ""},
		{[]string{"nfs://h/x"}, "a", ""},
		{[]string{"nfs://h/x"}, "-", ""},
		{[]string{"-"}, "nfs://h/x", ""},
		{[]string{"a"}, "b", "no argument is a URL"},
		{[]string{"-"}, "-", "no argument is a URL"},
		{[]string{"nfs://h/x", "a"}, "b", "a and b are both local"},
		{[]string{"-", "a"}, "nfs://h/x", "one of several"},
		{[]string{"http://h/x"}, "nfs://h/x", "not supported"},
	} {
		err := checkCopy(tt.from, tt.to)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("checkCopy(%q, %q) = %v, want %q", tt.from, tt.to, err, tt.want)
		}
		if err != nil && exitStatus(err) != exitUsage {
			t.Errorf("checkCopy(%q, %q): status %d", tt.from, tt.to, exitStatus(err))
		}
	}
}

// must returns v, unless err ends the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		noErr(t, err)
		return v
	}
}

// noErr ends the test if err is an error.
func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
