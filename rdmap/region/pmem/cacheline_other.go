//go:build !amd64

package pmem

import (
	"errors"
	"runtime"
)

// lineInstruction returns an error that says why there is none. Choice: amd64 only; elsewhere a user
// program cannot be sure that the kernel lets it clean caches to the point of persistence.
func lineInstruction() (string, error) {
	return "", errors.New("no cache-line write-back for user programs is known on " + runtime.GOARCH)
}

// evictLines must not be called where lineInstruction returns an error.
func evictLines([]byte) { panic("cacheline: no instruction") }

// writeBackLines must not be called where lineInstruction returns an error.
func writeBackLines([]byte) { panic("cacheline: no instruction") }
