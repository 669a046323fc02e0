package reading

import (
	"errors"
	"os"
	"time"

	"github.com/stag-rdma/stag/internal/quick"
	"golang.org/x/sys/unix"
)

// newAlarm returns an alarm that calls f in d. An alarm of the process does not use a Go timer: as long
// as there is such a timer, Go's scheduler reads the clock whenever it looks for the next goroutine to
// run, which short calls make it do many times during a tick.
func newAlarm(process bool, d time.Duration, f func()) alarm {
	if process {
		if a := newTimerfd(f); a != nil {
			a.set(d)
			return a
		}
	}
	return newTimer(d, f)
}

// timerfd is an alarm that uses timerfd(2). A goroutine waits for the descriptor in Go's poller.
type timerfd struct {
	f  *os.File
	fd int
}

// newTimerfd returns nil if there is no descriptor left.
func newTimerfd(f func()) *timerfd {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil
	}
	a := &timerfd{os.NewFile(uintptr(fd), "timerfd"), fd}
	go a.run(f)
	return a
}

// run calls f each time the alarm goes off. Where a process is watched it does so every millisecond, so that an ordinary
// read would wake Go's monitor thread for a good part of the time.
func (a *timerfd) run(f func()) {
	raw, err := a.f.SyscallConn()
	if err != nil {
		return // it is closed
	}
	var count [8]byte
	read := func(fd uintptr) bool {
		_, err := quick.Read(int(fd), count[:])
		return !errors.Is(err, unix.EAGAIN)
	}
	for raw.Read(read) == nil {
		f()
	}
}

func (a *timerfd) set(d time.Duration) {
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(d.Nanoseconds())}
	_ = unix.TimerfdSettime(a.fd, 0, &at, nil) // fails only for bad arguments
}

func (a *timerfd) rest() { _ = a.f.Close() } // ends run
