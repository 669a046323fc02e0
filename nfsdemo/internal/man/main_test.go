package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/internal/man"
)

// TestPages: every command has a page with its flags and its name, and none has what roff takes for a
// request.
func TestPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	if err := main.Write(dir); err != nil {
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
