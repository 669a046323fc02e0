package transport

import (
	"os/exec"
	"strings"
	"testing"
)

// TestDependencies fails when users of this package would pull more than std,
// x/sys, zap with its multierr, and go-xdr (DESIGN: the only libraries of the
// transport).
func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for path := range strings.FieldsSeq(string(out)) {
		if !allowedDependency(path) {
			t.Errorf("transport depends on %s", path)
		}
	}
}

func allowedDependency(path string) bool {
	for _, p := range []string{
		"github.com/stag-rdma/stag/", "golang.org/x/sys/", "go.uber.org/zap",
		"go.uber.org/multierr", "github.com/rasky/go-xdr/",
	} {
		if strings.HasPrefix(path, p) {
			return !strings.Contains(path, "nfsdemo") && !strings.Contains(path, "conformance")
		}
	}
	return false
}
