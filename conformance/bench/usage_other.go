//go:build !linux

package bench

import (
	"errors"
	"time"
)

var errLinuxOnly = errors.New("bench: processor time and resident memory are read on Linux only")

func cpuTime() (time.Duration, error) { return 0, errLinuxOnly }
func peakRSS() (uint64, error)        { return 0, errLinuxOnly }
