package transport_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestStoppedServer: a server that was stopped for longer than it keeps replies knows the calls
// still whose replies did not get through before.
func TestStoppedServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newOnce()
		cfg := testConfig()
		cfg.Duplicates.Time = time.Minute
		_, c, end := pipePair(t, h, cfg, testConfig())
		defer end()
		for n := range 2 {
			if err := tryCtx(t.Context(), c, withXID(7, wordCall(procList, 1))); err != nil {
				t.Fatal(err)
			}
			if h.times(7) != 1 {
				t.Errorf("transmission %d: it has run %d times", n+1, h.times(7))
			}
			time.Sleep(time.Hour)
		}
	})
}
