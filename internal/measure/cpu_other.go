//go:build !linux

package measure

import (
	"errors"
	"fmt"
	"time"
)

// CPU returns an error that wraps errors.ErrUnsupported: it is for Linux only.
func CPU() (time.Duration, error) {
	return 0, fmt.Errorf("measure: processor time: %w", errors.ErrUnsupported)
}
