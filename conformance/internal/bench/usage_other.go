//go:build !linux

package bench

import "errors"

var errLinuxOnly = errors.New("bench: resident memory is read on Linux only")

func peakRSS() (uint64, error) { return 0, errLinuxOnly }
