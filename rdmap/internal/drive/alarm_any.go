//go:build !linux

package drive

import "time"

// newAlarm returns an alarm that calls f in d.
func newAlarm(_ bool, d time.Duration, f func()) alarm { return newTimer(d, f) }
