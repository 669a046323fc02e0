//go:build unix

package accept

import (
	"errors"
	"syscall"
)

// isOutOfFiles reports whether Accept failed for want of a descriptor.
func isOutOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
