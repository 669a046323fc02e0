//go:build unix

package cli_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/cli"
)

func TestMain(m *testing.M) { mainTest(m, cli.Main) }

// TestNoLitter: an interrupted command removes its temporary files.
func TestNoLitter(t *testing.T) {
	for _, tt := range []struct {
		signal      syscall.Signal
		args, under string
	}{
		{syscall.SIGTERM, "demo", "*/*"},
		{syscall.SIGINT, "demo", "*"},
	} {
		t.Run(tt.args, func(t *testing.T) { interrupt(t, tt.signal, tt.args, tt.under, 128+int(tt.signal)) })
	}
}

// asCommand tells a test binary to be the command.
const asCommand = "STAG_TEST_AS_COMMAND"

// mainTest is the body of a TestMain. In a process that interrupt has started it runs command with the arguments
// of the process, elsewhere the tests. It does not return.
func mainTest(m *testing.M, command func(args []string, stdin io.Reader, stdout, stderr io.Writer) int) {
	if os.Getenv(asCommand) != "" {
		os.Exit(command(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// interrupt runs the command with args, which are divided by blanks, and sends it sig as soon as it has
// made a file in TMPDIR that matches under, a pattern of filepath.Glob. The command has to end with the
// exit status, say on standard error that it was interrupted, and leave nothing in TMPDIR.
func interrupt(t *testing.T, sig syscall.Signal, args, under string, status int) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv(asCommand, "yes")
	t.Setenv("TMPDIR", dir)
	var stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), os.Args[0], strings.Fields(args)...)
	cmd.Stderr = &stderr
	noErr(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for !exists(t, filepath.Join(dir, under)) {
		select {
		case err := <-ended:
			t.Fatalf("ended without a file %s: %v: %s", under, err, stderr.String())
		case <-time.After(time.Millisecond):
		}
	}
	noErr(t, cmd.Process.Signal(sig))
	err := <-ended
	exit, ok := errors.AsType[*exec.ExitError](err)
	said := strings.Contains(stderr.String(), "interrupt") || strings.Contains(stderr.String(), "terminated")
	if !ok || exit.ExitCode() != status || !said {
		t.Errorf("%v: %s", err, stderr.String())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// exists reports whether a file matches pattern.
func exists(t *testing.T, pattern string) bool {
	t.Helper()
	files := must(filepath.Glob(pattern))(t)
	return len(files) > 0
}
