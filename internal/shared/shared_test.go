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

// locked are the ways to hold a lock while something panics.
var locked = map[string]func(falls func()){
	"mutex": func(falls func()) {
		var m shared.Mutex
		m.Lock()
		defer m.Unlock()
		falls()
	},
	"tried": func(falls func()) {
		var m shared.Mutex
		if m.TryLock() {
			defer m.Unlock()
			falls()
		}
	},
	"with": func(falls func()) { new(shared.Mutex).With(falls) },
	"without": func(falls func()) { // what was half done before is so behind it, too
		var m shared.Mutex
		m.With(func() { m.Without(falls) })
	},
	"writer": func(falls func()) {
		var m shared.RWMutex
		m.Lock()
		defer m.Unlock()
		falls()
	},
	"reader": func(falls func()) {
		var m shared.RWMutex
		m.RLock()
		defer m.RUnlock()
		falls()
	},
}

// TestPanicEndsTheProcess: whoever recovers above, a panic while a lock is held is the end, and says where it was. Without a
// lock it is not.
func TestPanicEndsTheProcess(t *testing.T) {
	falls := func() { panic("the vase is broken") }
	if hold := os.Getenv(childEnv); hold != "" {
		defer func() { recover() }() //nolint:errcheck // what a connection does
		if hold == "none" {
			falls()
		}
		locked[hold](falls)
	}
	for hold := range locked {
		code, out := child(t, hold)
		if code != 2 || !strings.Contains(out, "the vase is broken") || !strings.Contains(out, "shared_test.go") {
			t.Errorf("%s: status %d: %s", hold, code, out)
		}
	}
	if code, out := child(t, "none"); code != 0 {
		t.Errorf("no lock: status %d: %s", code, out)
	}
}

func child(t *testing.T, hold string) (status int, out string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestPanicEndsTheProcess$")
	cmd.Env = append(os.Environ(), childEnv+"="+hold)
	b, err := cmd.CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(b)
}

// TestUnlock: without a panic it is a mutex, also while another function handles one.
func TestUnlock(t *testing.T) {
	var m shared.Mutex
	use := func() {
		m.Lock()
		defer m.Unlock()
		m.Without(func() { m.With(func() {}) })
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
