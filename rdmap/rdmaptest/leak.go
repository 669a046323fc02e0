package rdmaptest

import (
	"fmt"
	"os"
	"time"

	"go.uber.org/goleak"
)

// leakPatience is how long ended connections may take to tidy up, on a busy machine.
const leakPatience = 5 * time.Second

// Main is the TestMain of a package that opens connections: it runs the tests and exits
// with their status, or with 1 when they passed but left a goroutine behind, or something
// that one of also knows of.
func Main(m interface{ Run() int }, also ...func() error) {
	code := m.Run()
	for _, check := range append([]func() error{Leaks}, also...) {
		if code != 0 {
			break
		}
		if err := check(); err != nil {
			fmt.Fprintln(os.Stderr, "left behind:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// Leaks waits until no goroutine is left but those of the testing package, and returns the
// stacks of those that stay. The watchers of the process (package rdmap's epoll, say) end
// with the last connection.
func Leaks() error { return leaks(leakPatience) }

func leaks(patience time.Duration) error {
	for deadline := time.Now().Add(patience); ; {
		err := goleak.Find(goleak.IgnoreAnyFunction("testing.runExample.func1"))
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
