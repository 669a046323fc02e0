//go:build unix

package dir_test

import "syscall"

// A server has no umask: clients have applied theirs.
func init() { syscall.Umask(0) }
