package rdmaptest

import (
	"fmt"
	"os"
	"time"

	"go.uber.org/goleak"
)

// leakPatience is how long closed connections may take to clean up, on a busy machine.
const leakPatience = 5 * time.Second

// Main is the TestMain of a package that opens connections: it runs the tests and exits with their
// status, or with 1 if they passed but left a goroutine behind or if one of also returns an error.
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

// Leaks waits until only the goroutines of the testing package are left. If others stay, it returns
// an error with their stacks. The watchers of the process, such as package rdmap's epoll, end with
// the last connection.
func Leaks() error { return leaks(leakPatience) }

func leaks(patience time.Duration) error {
	for deadline := time.Now().Add(patience); ; {
		err := goleak.Find(goleak.IgnoreAnyFunction("testing.runExample.func1"))
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
