package accept_test

import (
	"testing"

	"github.com/stag-rdma/stag/internal/accept"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// Each message has its own few lines: what one host causes hides nothing else.
func TestSampled(t *testing.T) {
	core, seen := observer.New(zapcore.InfoLevel)
	log := accept.Sampled(zap.New(core))
	for range 5000 {
		log.Warn("a flood")
	}
	log.Warn("another")
	// The clock may have gone to another second in between, once or twice.
	if n := seen.FilterMessage("a flood").Len(); n < 10 || n > 200 {
		t.Errorf("%d lines of a flood", n)
	}
	if n := seen.FilterMessage("another").Len(); n != 1 {
		t.Errorf("%d lines of another", n)
	}
	if nop := zap.NewNop(); accept.Sampled(nop) != nop {
		t.Error("a logger that writes nothing is sampled")
	}
}
