//go:build !amd64

package cacheline

import (
	"errors"
	"runtime"
)

// Instruction returns an error that says why there is none. Choice: amd64 only; elsewhere a user
// program cannot be sure that the kernel lets it clean caches to the point of persistence.
func Instruction() (string, error) {
	return "", errors.New("no cache-line write-back for user programs is known on " + runtime.GOARCH)
}

// Evict must not be called where Instruction returns an error.
func Evict([]byte) { panic("cacheline: no instruction") }

// WriteBack must not be called where Instruction returns an error.
func WriteBack([]byte) { panic("cacheline: no instruction") }
