package server

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMain fails if goroutines of this module are left over.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if s := leaked(5 * time.Second); s != "" {
			fmt.Fprintf(os.Stderr, "leaked goroutines:\n%s\n", s)
			code = 1
		}
	}
	os.Exit(code)
}

// leaked returns the stacks of goroutines that started no part of the test binary and do not
// end in time.
func leaked(patience time.Duration) string {
	var left string
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		buf := make([]byte, 1<<20)
		left = ""
		for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")[1:] {
			if strings.Contains(g, "stag-rdma") && strings.Contains(g, "created by") && !strings.Contains(g, "created by os/signal") {
				left += g + "\n\n"
			}
		}
		if left == "" || time.Now().After(end) {
			return left
		}
	}
}
