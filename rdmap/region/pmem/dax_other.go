//go:build !linux

package pmem

import (
	"errors"
	"runtime"
)

func openDAX(d *device) (medium, error) {
	return nil, d.error("open", ErrRefused, errors.New("persistent memory is not supported on "+runtime.GOOS))
}
