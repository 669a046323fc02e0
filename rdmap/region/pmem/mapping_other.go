//go:build !linux

package pmem

import (
	"errors"
	"runtime"
)

func openMmap(d *device) ([]byte, medium, error) {
	return nil, nil, d.error("open", ErrRefused, errors.New("mappings are not supported on "+runtime.GOOS))
}

func openDAX(d *device) ([]byte, medium, error) {
	return nil, nil, d.error("open", ErrRefused, errors.New("persistent memory is not supported on "+runtime.GOOS))
}
