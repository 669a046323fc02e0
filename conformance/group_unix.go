//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup makes c end with what it has started.
func ownGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}
