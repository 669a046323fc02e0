package cli_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra/doc"
	"github.com/stag-rdma/stag/nfsdemo/cli"
	"github.com/stag-rdma/stag/nfsdemo/internal/exports"
)

var manDir = flag.String("man", "", "the directory for the manual pages (packaging/release.sh)")

// TestMan writes the manual pages, dated by SOURCE_DATE_EPOCH: every command has one with its flags and its name, the file of
// exports one with what each option means, and none has what roff takes for a request.
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
	text, err := os.ReadFile("../../packaging/nfsdemo.toml.5.md")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, o := range exports.Options() {
		fmt.Fprintf(&b, "**%s**\n: %s\n\n", o[0], cmp.Or(o[1], "as there"))
	}
	page := md2man.Render(fmt.Appendf(nil, string(text), b.String()))
	if err := os.WriteFile(filepath.Join(dir, "nfsdemo.toml.5"), page, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"nfsdemo.toml.5": "crossmnt\nreaches file systems of disks", "nfsdemo.1": "nfsdemo-serve(1)", "nfsdemo-serve.1": "--mount-listen", "nfsdemo-proxy.1": "--backward", "nfsdemo-log-verify.1": "verify",
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if plain := strings.NewReplacer(`\fB`, "", `\fP`, "", `\`, "").Replace(string(text)); err != nil || !strings.Contains(plain, want) {
			t.Errorf("%s: %v, no %q", name, err, want)
		}
	}
}
