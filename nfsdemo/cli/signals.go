package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	sd "github.com/coreos/go-systemd/v22/daemon"
)

// interruptError is the cause of the end of a context that interrupts returned.
type interruptError struct{ signal os.Signal }

func (e *interruptError) Error() string {
	if e.signal == os.Interrupt {
		return "interrupted"
	}
	return e.signal.String()
}

// status is the exit status of a command that the signal has ended, as shells report it: 128 and the
// number of the signal.
func (e *interruptError) status() int {
	if n, ok := e.signal.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return exitFailed
}

// interrupts returns a context that ends at the first SIGINT or SIGTERM, and one that ends at the
// second. The third one kills the process, as it would without a handler. The caller must call stop.
func interrupts(parent context.Context) (soft, hard context.Context, stop func()) {
	soft, cancelSoft := context.WithCancelCause(parent)
	hard, cancelHard := context.WithCancelCause(parent)
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for _, cancel := range []context.CancelCauseFunc{cancelSoft, cancelHard} {
			select {
			case sig := <-ch:
				cancel(&interruptError{sig})
			case <-quit:
				return
			}
		}
		signal.Stop(ch)
	})
	return soft, hard, func() {
		signal.Stop(ch)
		close(quit)
		wg.Wait()
		cancelSoft(nil)
		cancelHard(nil)
	}
}

// notify tells systemd about the state of a server, if the unit wants to know (Type=notify). It is
// nobody's error if systemd is not there.
func notify(state string) { _, _ = sd.SdNotify(false, state) }

// ready says that a server serves, with the line that systemctl status shows; failed leaves another line there.
func ready(status string)  { notify(sd.SdNotifyReady + "\nSTATUS=" + status) }
func failed(status string) { notify("STATUS=" + status) }

// stopping says that a server ends.
func stopping() { notify(sd.SdNotifyStopping) }

// hangups returns a channel of SIGHUPs, which ask a server to read its configuration again.
func hangups() (ch <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}

// reload runs f after a SIGHUP. What a server does not understand it does not take: it goes on with the
// configuration that it has. f returns the exports.
func (l *serverLog) reload(f func() (string, error)) {
	if f == nil {
		l.Info("nothing to reload: the configuration is in the flags")
		return
	}
	notify(sd.SdNotifyReloading)
	exports, err := f()
	if err != nil {
		l.Error("not reloaded: the configuration stays as it was", "error", err)
		ready("not reloaded: " + err.Error() + "; serving what was served before")
		return
	}
	l.Info("reloaded", "exports", exports)
	ready("serving " + exports)
}
