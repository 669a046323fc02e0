//go:build !linux

package measure

import (
	"errors"
	"fmt"
	"time"
)

// CPU is not there: only Linux is asked.
func CPU() (time.Duration, error) {
	return 0, fmt.Errorf("measure: processor time: %w", errors.ErrUnsupported)
}
