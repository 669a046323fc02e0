package coverage

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const tagged = `package p

// TestOne does.
//
// spec: rdmap 7.4 response
func TestOne(t *testing.T) {
	// spec: rdmap 7.4 local
	for _, tt := range []struct{ spec, other string }{
		{spec: "rdmap 7.3 F-AW", other: "rdmap 7.3 F-F"},
		{other: "x", spec: "rdmap 7.3 F-V"},
	} {
		_ = tt // not a tag: spec: rdmap 7.3 V-V
	}
}

func helper() {}

// spec: other 1 a
func FuzzTwo(f *testing.F) {}
`

func TestScan(t *testing.T) {
	tags, err := Scan(fstest.MapFS{
		"a/b/p_test.go":             {Data: []byte(tagged)},
		"a/b/p.go":                  {Data: []byte("package p // spec: rdmap 7.3 AW-AW")},
		"a/testdata/q_test.go":      {Data: []byte("no Go")},
		".git/q_test.go":            {Data: []byte("no Go")},
		"_old/q_test.go":            {Data: []byte("no Go")},
		"root_test.go":              {Data: []byte("package p\n\n// spec: rdmap 7.4 local\nfunc TestRoot() {}")},
		"a/b/notes_test.go.orig":    {Data: []byte("no Go")},
		"a/b/linux/x_linux_test.go": {Data: []byte("//go:build never\n\npackage p\n\n// spec: rdmap 7.4 start\nfunc TestX() {}")},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, tag := range tags {
		got = append(got, fmt.Sprintf("%s|%s|%s|%s:%d", tag.Spec, tag.Row, tag.Name(), tag.File, tag.Line))
	}
	want := []string{
		"rdmap|7.4 start|a/b/linux.TestX|a/b/linux/x_linux_test.go:5",
		"rdmap|7.4 response|a/b.TestOne|a/b/p_test.go:5",
		"rdmap|7.4 local|a/b.TestOne|a/b/p_test.go:7",
		"other|1 a|a/b.FuzzTwo|a/b/p_test.go:18",
		"rdmap|7.3 F-AW|a/b.TestOne/rdmap_7.3_F-AW|a/b/p_test.go:9",
		"rdmap|7.3 F-V|a/b.TestOne/rdmap_7.3_F-V|a/b/p_test.go:10",
		"rdmap|7.4 local|..TestRoot|root_test.go:3",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestScanErrors(t *testing.T) {
	for _, tt := range []struct{ name, src, want string }{
		{"not Go", "package", "x_test.go:1:8: expected 'IDENT'"},
		{"helper", "package p\n\n// spec: rdmap 7.4 local\nfunc helper() {}", `x_test.go:3: the tag "rdmap 7.4 local" belongs to no test`},
		{"variable", "package p\n\nvar table = []row{{spec: \"rdmap 7.3 F-AW\"}}", `x_test.go:3: the tag "rdmap 7.3 F-AW" belongs to no test`},
		{"method", "package p\n\n// spec: rdmap 7.4 local\nfunc (s suite) TestX() {}", `x_test.go:3: the tag "rdmap 7.4 local" belongs to no test`},
	} {
		_, err := Scan(fstest.MapFS{"x_test.go": {Data: []byte(tt.src)}})
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}
