package cli_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra/doc"
	"github.com/stag-rdma/stag/nfsdemo/cli"
)

var manDir = flag.String("man", "", "the directory for the manual pages (packaging/release.sh)")

// TestMan writes the manual pages, dated by SOURCE_DATE_EPOCH: every command has one with its flags and its name, and none
// has what roff takes for a request.
func TestMan(t *testing.T) {
	dir := *manDir
	if dir == "" {
		dir = t.TempDir()
	} else if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := cli.Command()
	cmd.DisableAutoGenTag = true
	if err := doc.GenManTree(cmd, &doc.GenManHeader{Section: "1", Source: "stag", Manual: "nfsdemo"}, dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"nfsdemo.1": "nfsdemo-serve(1)", "nfsdemo-serve.1": "--mount-listen", "nfsdemo-proxy.1": "--backward", "nfsdemo-log-verify.1": "verify",
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if plain := strings.ReplaceAll(string(text), `\`, ""); err != nil || !strings.Contains(plain, want) {
			t.Errorf("%s: %v, no %q", name, err, want)
		}
	}
}
