package pmem_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/region/pmem"
)

// TestMain fails the package when a test leaves a goroutine or a pinned memory behind.
func TestMain(m *testing.M) {
	code := m.Run()
	if left := leaked(); left != "" && code == 0 {
		fmt.Fprintln(os.Stderr, "left behind:\n"+left)
		code = 1
	}
	if n := pmem.Pinned(); n != 0 && code == 0 {
		fmt.Fprintln(os.Stderr, "pinned memories left behind:", n)
		code = 1
	}
	os.Exit(code)
}

// leaked returns the stacks of goroutines that should be gone, after giving them some
// time to go.
func leaked() string {
	for deadline := time.Now().Add(3 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		buf := make([]byte, 1<<20)
		buf = buf[:runtime.Stack(buf, true)]
		var bad []string
		for g := range strings.SplitSeq(string(buf), "\n\n") {
			if strings.Contains(g, "region/pmem") && !strings.Contains(g, "TestMain") {
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
