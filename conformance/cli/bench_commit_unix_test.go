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

// TestBenchCommitInterrupted: a benchmark that is ended takes its files with it.
func TestBenchCommitInterrupted(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), exe, "bench", "commit", "--dir", dir, "--rounds", "100000", "--only", "append, file, against")
	cmd.Env, cmd.Stderr = append(os.Environ(), asCommand+"=yes"), &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for found := false; !found; time.Sleep(time.Millisecond) {
		logs, err := filepath.Glob(filepath.Join(dir, "*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		found = len(logs) > 0
		select {
		case err := <-ended:
			t.Fatal(err, stderr.String())
		default:
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	err = <-ended
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != exitFailed || !strings.Contains(stderr.String(), "conformance: interrupted") {
		t.Errorf("%v: %s", err, stderr.String())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}
