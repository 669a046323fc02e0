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
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ ends, lives context.Context }{{soft, hard}, {hard, t.Context()}} {
		if err := self.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		<-tt.ends.Done()
		if e, ok := errors.AsType[*interruptError](context.Cause(tt.ends)); !ok || e.status() != 130 || tt.lives.Err() != nil {
			t.Error(context.Cause(tt.ends), tt.lives.Err())
		}
	}
}
