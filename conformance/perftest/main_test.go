package perftest_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMain fails the package when a test leaves a goroutine behind.
func TestMain(m *testing.M) {
	code := m.Run()
	if left := leaked(); left != "" && code == 0 {
		fmt.Fprintln(os.Stderr, "left behind:\n"+left)
		code = 1
	}
	os.Exit(code)
}

// leaked returns the stacks of goroutines that should be gone, after giving them
// some time to go.
func leaked() string {
	for deadline := time.Now().Add(3 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		buf := make([]byte, 1<<20)
		buf = buf[:runtime.Stack(buf, true)]
		var bad []string
		for g := range strings.SplitSeq(string(buf), "\n\n") {
			// The epoll goroutine of the engine belongs to the process.
			if strings.Contains(g, "stag/") && !strings.Contains(g, "perftest_test.TestMain") && !strings.Contains(g, "epoll") {
				bad = append(bad, g)
			}
		}
		if len(bad) == 0 {
			return ""
		}
		if time.Now().After(deadline) {
			return strings.Join(bad, "\n\n")
		}
	}
}
