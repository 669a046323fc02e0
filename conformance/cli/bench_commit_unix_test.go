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
const asCommand = "STAG_CONFORMANCE_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// command is this command with args, in another process.
func command(t *testing.T, args ...string) (cmd *exec.Cmd, stderr *strings.Builder) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd, stderr = exec.CommandContext(t.Context(), exe, args...), new(strings.Builder)
	cmd.Env, cmd.Stderr = append(os.Environ(), asCommand+"=yes"), stderr
	return cmd, stderr
}

// TestBenchCommitInterrupted: a benchmark that is ended takes its files with it.
func TestBenchCommitInterrupted(t *testing.T) {
	for _, only := range []string{"append, plain memory", "append, file, against"} {
		dir := t.TempDir()
		cmd, stderr := command(t, "bench", "commit", "--dir", dir, "--rounds", "100000", "--only", only)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for !measuring(t, dir) {
			select {
			case err := <-ended:
				t.Fatal(err, stderr.String())
			case <-time.After(time.Millisecond):
			}
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		err := <-ended
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != exitFailed || !strings.Contains(stderr.String(), "conformance: interrupted") {
			t.Errorf("%s: %v: %s", only, err, stderr.String())
		}
		wantEmpty(t, dir)
	}
}

// TestBenchCommitLeavesNothing: so does one that comes to its end.
func TestBenchCommitLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	cmd, stderr := command(t, "bench", "commit", "--dir", dir, "--quick", "--rounds", "1", "--only", "append, plain memory")
	if err := cmd.Run(); err != nil {
		t.Error(err, stderr.String())
	}
	wantEmpty(t, dir)
}

// measuring says whether there are logs in dir.
func measuring(t *testing.T, dir string) bool {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(logs) > 0
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}
