//go:build unix

package server_test

import "syscall"

// A server has no umask: clients have applied theirs.
func init() { syscall.Umask(0) }
