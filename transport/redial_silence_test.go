package transport_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/transport/redial"
)

// mute makes all that is written on the connections vanish, both ways: a cable that was
// pulled.
func (w *network) mute() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.faulty {
		c.Set(rdmaptest.Faults{
			In:  rdmaptest.Fault{Cut: rdmaptest.CutSilence},
			Out: rdmaptest.Fault{Cut: rdmaptest.CutSilence},
		})
	}
}

// TestSilence: a connection on which nothing comes while a call is outstanding is given up
// after Silence, not before, and the call sent again. An idle one is left alone.
func TestSilence(t *testing.T) {
	for _, stream := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newNetwork(newOnce(), unwatched(testConfig()), unwatched(testConfig()))
			w.stream = func(int) bool { return stream }
			r := quick(t, w, func(c *redial.Config) { c.Silence = 8 * time.Second })
			if err := tryCtx(t.Context(), r, &nullCall); err != nil {
				t.Fatal(err)
			}
			w.mute()
			time.Sleep(time.Hour)
			if st := r.Stats(); st.Silences != 0 {
				t.Errorf("idle: %+v", st)
			}
			start := time.Now()
			call := wordCall(procList, 3)
			call.Repeatable = true
			if err := tryCtx(t.Context(), r, call); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(start); d < 8*time.Second || d > 11*time.Second {
				t.Errorf("given up after %v", d)
			}
			if st := r.Stats(); st.Silences != 1 || st.Accepted != 2 || st.Retransmits != 1 {
				t.Errorf("%+v", st)
			}
			r.Close()
			w.s.Close()
			time.Sleep(time.Minute) // timeouts of what was muted
			w.end()
		})
	}
}

// TestSlowCall: a server that answers NULL calls is not silent; a call that it has owed
// for four times as long is sent again on another connection, and meets the first one
// there.
func TestSlowCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newOnce()
		w := newNetwork(h, unwatched(testConfig()), unwatched(testConfig()))
		r := quick(t, w, func(c *redial.Config) { c.Silence = 8 * time.Second })
		for range 2 {
			if err := tryCtx(t.Context(), r, &nullCall); err != nil {
				t.Fatal(err)
			}
		}
		done := make(chan error, 1)
		call := blockCall
		call.Repeatable = true
		go func() { done <- tryCtx(t.Context(), r, &call) }()
		<-h.enter
		time.Sleep(31 * time.Second)
		st := r.Stats()
		if st.Silences != 0 || st.Accepted != 1 {
			t.Errorf("a slow call: %+v", st)
		}
		if asked := st.Calls - 3; asked < 3 || asked > 8 {
			t.Errorf("asked %d times in 31 s", asked)
		}
		time.Sleep(5 * time.Second)
		if st := r.Stats(); st.Silences != 1 || st.Accepted != 2 || st.Retransmits != 1 || w.s.Stats().Joined != 1 {
			t.Errorf("a call that is lost: %+v", st)
		}
		close(h.leave)
		if err := <-done; err != nil || len(h.enter) != 0 {
			t.Errorf("%v; ran %d times more", err, len(h.enter))
		}
		r.Close()
		w.end()
		time.Sleep(time.Minute)
	})
}
