package cli

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRestart: the server that a command leaves behind, with its output, is not waited for; a command that hangs is
// ended, with all that it has started.
func TestRestart(t *testing.T) {
	dir := t.TempDir() // when it is gone, the server ends
	server := `(while [ -e ` + dir + ` ]; do sleep 0.1; done) & echo started`
	if err := restart(t.Context(), server, time.Hour); err != nil {
		t.Error(err)
	}
	if err := restart(t.Context(), "echo in vain >&2; exit 3", time.Hour); err == nil || !strings.HasSuffix(err.Error(), "exit status 3: in vain") {
		t.Errorf("a command that fails: %v", err)
	}
	busy := filepath.Join(dir, "busy")
	if out, err := exec.Command("mkfifo", busy).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = os.ReadFile(busy) // until the command is busy
		cancel()
	}()
	if err := restart(ctx, "echo busy; echo >"+busy+"; sleep 600; true", time.Hour); !errors.Is(err, context.Canceled) || !strings.HasSuffix(err.Error(), ": busy") {
		t.Errorf("a command that hangs: %v", err)
	}
	if err := restart(t.Context(), "sleep 600; true", time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a command that hangs: %v", err)
	}
}

// TestJUnitName: a report that cannot be written is refused before anything is played.
func TestJUnitName(t *testing.T) {
	status, stdout, stderr := run(t, nil, "probe", "--only", "^mpa/wrong-key$", "--junit", filepath.Join(t.TempDir(), "none", "x.xml"), probed(t))
	if status != 2 || stdout != "" || !strings.Contains(stderr, "x.xml: no such file or directory") {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
}
