package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/cli"
)

// packaging reads a file of packaging/.
func packaging(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "packaging", name))
	noErr(t, err)
	return string(text)
}

// isFlag tells the flags of nfsdemo serve.
func isFlag(t *testing.T) func(name string) bool {
	t.Helper()
	cmd, _, err := cli.Command().Find([]string{"serve"})
	noErr(t, err)
	return func(name string) bool { return cmd.Flags().Lookup(name) != nil }
}

// TestPackagedFlags: what the packages start has flags that exist, and sockets are named after flags.
func TestPackagedFlags(t *testing.T) {
	isFlag, n := isFlag(t), 0
	for _, name := range []string{"nfsdemo.default", "Containerfile", "nfsdemo.service"} {
		for _, m := range regexp.MustCompile(`(?m)[ "]--([a-z-]+)[ ",]`).FindAllStringSubmatch(packaging(t, name), -1) {
			if m[1] == "build-arg" || m[1] == "network" {
				continue // of buildah and podman
			}
			if n++; !isFlag(m[1]) {
				t.Errorf("%s: serve has no flag --%s", name, m[1])
			}
		}
	}
	for _, name := range []string{"nfsdemo.socket", "nfsdemo-mount.socket"} {
		m := regexp.MustCompile(`(?m)^FileDescriptorName=(.*)$`).FindStringSubmatch(packaging(t, name))
		if n++; m == nil || !isFlag(m[1]) {
			t.Errorf("%s: %q is not a flag", name, m)
		}
	}
	if n < 12 {
		t.Errorf("only %d flags are checked", n)
	}
}

// TestPackageContents: what goes into the Debian package without being built is there.
func TestPackageContents(t *testing.T) {
	n := 0
	for _, m := range regexp.MustCompile(`(?m)(?:src|install|remove): ([a-z]+/[^, }\n]+)`).FindAllStringSubmatch(packaging(t, "nfpm.yaml"), -1) {
		if strings.HasPrefix(m[1], "dist/") {
			continue
		}
		if n++; !exists(filepath.Join("..", m[1])) {
			t.Errorf("no %s", m[1])
		}
	}
	if n < 10 {
		t.Errorf("only %d files are checked", n)
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// TestUnits: systemd understands the units.
func TestUnits(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("no systemd-analyze here (apt-get install systemd)")
	}
	dir := t.TempDir()
	names := []string{"nfsdemo.service", "nfsdemo.socket", "nfsdemo-mount.socket"}
	args := []string{"verify", "--man=no"}
	for _, name := range names {
		unit := strings.ReplaceAll(packaging(t, name), "/usr/bin/nfsdemo", "/bin/true") // which is installed
		noErr(t, os.WriteFile(filepath.Join(dir, name), []byte(unit), 0o644))
		args = append(args, filepath.Join(dir, name))
	}
	if out, err := exec.CommandContext(t.Context(), "systemd-analyze", args...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}
