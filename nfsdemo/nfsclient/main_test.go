package nfsclient

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMain fails when a goroutine of this module outlives the tests.
func TestMain(m *testing.M) {
	code := m.Run()
	for deadline := time.Now().Add(5 * time.Second); code == 0; time.Sleep(5 * time.Millisecond) {
		left := ours()
		if left == "" {
			break
		}
		if time.Now().After(deadline) {
			fmt.Fprintf(os.Stderr, "goroutines left:\n%s\n", left)
			code = 1
		}
	}
	os.Exit(code)
}

// ours returns the stacks of goroutines that run code of this module, without the
// process-wide watchers of packages rdmap and transport.
func ours() string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var left []string
	for i, g := range strings.Split(string(buf), "\n\n") {
		processWide := strings.Contains(g, "(*poller)") || strings.Contains(g, "(*ticker)") || strings.Contains(g, "(*watchdog)")
		if i > 0 && strings.Contains(g, "stag-rdma/stag") && !processWide {
			left = append(left, g)
		}
	}
	return strings.Join(left, "\n\n")
}
