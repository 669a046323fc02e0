//go:build !linux

package pmem

import (
	"errors"
	"runtime"
)

func openMmap(d *device) (medium, error) {
	return nil, d.error("open", ErrRefused, errors.New("mappings are not supported on "+runtime.GOOS))
}
