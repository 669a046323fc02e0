package cli

import (
	"context"
	"errors"
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
	begun := time.Now()
	if err := restart(t.Context(), server, time.Minute); err != nil || time.Since(begun) > 30*time.Second {
		t.Errorf("%v after %v", err, time.Since(begun))
	}
	if err := restart(t.Context(), "echo in vain >&2; exit 3", time.Minute); err == nil || !strings.HasSuffix(err.Error(), "exit status 3: in vain") {
		t.Errorf("a command that fails: %v", err)
	}
	if err := restart(t.Context(), "echo busy; sleep 600; true", 200*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) || !strings.HasSuffix(err.Error(), ": busy") {
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
