//go:build unix

package cli

import (
	"context"
	"errors"
	"os"
	"testing"
)

// TestInterrupts: the first interrupt asks, the second insists.
func TestInterrupts(t *testing.T) {
	soft, hard, stop := interrupts(t.Context())
	defer stop()
	self := must(os.FindProcess(os.Getpid()))(t)
	for _, tt := range []struct{ ends, lives context.Context }{{soft, hard}, {hard, t.Context()}} {
		noErr(t, self.Signal(os.Interrupt))
		<-tt.ends.Done()
		if e, ok := errors.AsType[*interruptError](context.Cause(tt.ends)); !ok || e.status() != 130 || tt.lives.Err() != nil {
			t.Error(context.Cause(tt.ends), tt.lives.Err())
		}
	}
}
