package shared_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/internal/shared"
)

const childEnv = "STAG_SHARED_CHILD"

// TestPanicEndsTheProcess: whoever recovers above, a panic while a Mutex is held is the end, and says where it was.
func TestPanicEndsTheProcess(t *testing.T) {
	if os.Getenv(childEnv) != "" {
		defer func() { recover() }() //nolint:errcheck // what a connection does
		var m shared.Mutex
		m.Lock()
		defer m.Unlock()
		panic("the vase is broken")
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestPanicEndsTheProcess$")
	cmd.Env = append(os.Environ(), childEnv+"=1")
	out, err := cmd.CombinedOutput()
	e, ok := errors.AsType[*exec.ExitError](err)
	if !ok || e.ExitCode() != 2 || !strings.Contains(string(out), "the vase is broken") || !strings.Contains(string(out), "shared_test.go") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestUnlock: without a panic it is a mutex, also while another function handles one.
func TestUnlock(t *testing.T) {
	var m shared.Mutex
	use := func() {
		m.Lock()
		defer m.Unlock()
	}
	func() {
		defer func() {
			use()
			if recover() == nil {
				t.Error("the panic is gone")
			}
		}()
		panic("elsewhere")
	}()
	use()
}
