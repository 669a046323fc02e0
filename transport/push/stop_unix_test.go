//go:build unix

package push_test

import (
	"os"
	"syscall"
)

// stop stops a child, and returns when all its threads have stopped.
func stop(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	var st syscall.WaitStatus
	_, err := syscall.Wait4(p.Pid, &st, syscall.WUNTRACED, nil)
	return err
}

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
