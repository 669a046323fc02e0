package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
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
