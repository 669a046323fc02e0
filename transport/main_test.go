package transport

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// leakPatience is how long ended connections may take to tidy up.
const leakPatience = 5 * time.Second

// TestMain fails when a goroutine of this module or a pooled buffer outlives the
// tests.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if left := leaked(leakPatience); left != "" {
			fmt.Fprintf(os.Stderr, "goroutines left:\n%s\n", left)
			code = 1
		}
		if n := shared.live.Load(); n != 0 {
			fmt.Fprintf(os.Stderr, "%d pooled buffers not released\n", n)
			code = 1
		}
	}
	os.Exit(code)
}

// leaked waits until no goroutine of a connection is left and returns the stacks of
// those that stay.
func leaked(patience time.Duration) string {
	deadline := time.Now().Add(patience)
	for {
		left := ours()
		if left == "" || time.Now().After(deadline) {
			return left
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// ours returns the stacks of goroutines that run this module's code, without the
// process-wide watchers of package rdmap, which stay by design.
func ours() string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var left []string
	for i, g := range strings.Split(string(buf), "\n\n") {
		if i == 0 || !strings.Contains(g, "stag-rdma/stag") || processWide(g) {
			continue
		}
		left = append(left, g)
	}
	return strings.Join(left, "\n\n")
}

// processWide knows the goroutines that belong to the process or the tests and not to a
// connection.
func processWide(stack string) bool {
	for _, f := range []string{"transport.TestMain", "rdmap.(*poller)", "rdmap.(*ticker)", "rdmap.(*watchdog)", "transport.(*ticker)"} {
		if strings.Contains(stack, f) {
			return true
		}
	}
	return false
}
