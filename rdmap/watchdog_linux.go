package rdmap

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// watchdogClock pauses in nanosleep on a thread of its own: a tick by Go's timers
// would wake a second thread each time and cost a ping-pong up to half its speed.
func watchdogClock() (pause, stop func()) {
	runtime.LockOSThread()
	ts := unix.NsecToTimespec(int64(watchdogTick))
	return func() { _ = unix.Nanosleep(&ts, nil) }, runtime.UnlockOSThread
}
