package transport

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

// stop is a client process that is stopped for d, and the looks of its Redialer then: the
// timer comes late, and first.
func stop(r *Redialer, d time.Duration) {
	r.mu.Lock()
	r.watch.stop()
	r.mu.Unlock()
	time.Sleep(d)
	r.look()
}

// TestStopped: a client that was stopped, and has the answer in its socket when it continues, does
// not take the server for silent, nor the call for lost. It would send it again, and by then the
// server may have forgotten the reply.
func TestStopped(t *testing.T) {
	for _, stream := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := newOnce()
			w := newNetwork(h, unwatched(testConfig()), unwatched(testConfig()))
			w.stream = func(int) bool { return stream }
			r := quick(t, w, func(c *RedialConfig) { c.Silence = 8 * time.Second })
			if err := tryCtx(t.Context(), r, &nullCall); err != nil {
				t.Fatal(err)
			}
			const d = time.Hour
			w.mu.Lock()
			w.faulty[0].Set(rdmaptest.Faults{In: rdmaptest.Fault{Delay: d + time.Second}})
			w.mu.Unlock()
			done := make(chan error, 1)
			go func() { done <- tryCtx(t.Context(), r, wordCall(procList, 3)) }()
			synctest.Wait() // it has run
			w.mu.Lock()
			w.faulty[0].Set(rdmaptest.Faults{})
			w.mu.Unlock()
			stop(r, d)
			if err := <-done; err != nil {
				t.Error(err)
			}
			if st := r.Stats(); st.Silences != 0 || st.Retransmits != 0 || st.Accepted != 1 {
				t.Errorf("stream %v: %+v", stream, st)
			}
			r.Close()
			w.end()
			time.Sleep(time.Minute)
		})
	}
}

// TestStoppedServer: a server that was stopped for longer than it keeps replies knows the calls
// still whose replies did not get through before.
func TestStoppedServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newOnce()
		cfg := testConfig()
		cfg.DRCTime = time.Minute
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
