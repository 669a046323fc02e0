//go:build !linux

package rdmap

import "time"

func watchdogClock() (pause, stop func()) {
	return func() { time.Sleep(watchdogTick) }, func() {}
}
