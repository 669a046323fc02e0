package capture

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMain fails when a goroutine of this package outlives the tests.
func TestMain(m *testing.M) {
	code := m.Run()
	deadline := time.Now().Add(2 * time.Second)
	for code == 0 {
		buf := make([]byte, 1<<20)
		_, others, _ := strings.Cut(string(buf[:runtime.Stack(buf, true)]), "\n\n")
		if !strings.Contains(others, "rdmap/capture") {
			break
		}
		if time.Now().After(deadline) {
			fmt.Fprintln(os.Stderr, "goroutines left:\n"+others)
			code = 1
		}
		time.Sleep(5 * time.Millisecond)
	}
	os.Exit(code)
}
