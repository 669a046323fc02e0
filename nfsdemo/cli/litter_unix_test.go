//go:build unix

package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asCommand tells this test binary to be the command.
const asCommand = "STAG_NFSDEMO_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// TestNoLitter: what is interrupted takes its files with it.
func TestNoLitter(t *testing.T) {
	for _, tt := range []struct {
		signal syscall.Signal
		args   string
		under  string // matches files of what is under way
	}{
		{syscall.SIGTERM, "bench push --quick --rounds 100000 --only sim", "*/*"},
		{syscall.SIGINT, "bench push --quick --rounds 100000 --only file", "*/logs/*.log"},
		{syscall.SIGTERM, "demo", "*/*"},
		{syscall.SIGINT, "demo", "*"},
	} {
		dir := t.TempDir()
		t.Setenv(asCommand, "yes")
		t.Setenv("TMPDIR", dir)
		var stderr strings.Builder
		cmd := exec.CommandContext(t.Context(), os.Args[0], strings.Fields(tt.args)...)
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for begun(t, filepath.Join(dir, tt.under)) == 0 {
			select {
			case err := <-ended:
				t.Fatal(err, stderr.String())
			case <-time.After(time.Millisecond):
			}
		}
		if err := cmd.Process.Signal(tt.signal); err != nil {
			t.Fatal(err)
		}
		err := <-ended
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != exitFailed || !strings.Contains(stderr.String(), "interrupt") && !strings.Contains(stderr.String(), "terminated") {
			t.Errorf("%s: %v: %s", tt.args, err, stderr.String())
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: left behind: %v %v", tt.args, left, err)
		}
	}
}

// begun says how many files match.
func begun(t *testing.T, pattern string) int {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}
