package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// errInterrupted is the cause of the end of a context that interrupts returned.
var errInterrupted = errors.New("interrupted")

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
			case <-ch:
				cancel(errInterrupted)
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
