package transport_test

import (
	"context"
	"errors"
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
	for _, c := range w.cards {
		c.Mute()
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
			noErr(t, tryCtx(t.Context(), r, &nullCall))
			w.mute()
			time.Sleep(time.Hour)
			if st := r.Stats(); st.Silences != 0 {
				t.Errorf("idle: %+v", st)
			}
			start := time.Now()
			call := wordCall(procList, 3)
			call.Repeatable = true
			noErr(t, tryCtx(t.Context(), r, call))
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
// for sixteen times as long is sent again on another connection, and meets the first one
// there.
func TestSlowCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newOnce()
		w := newNetwork(h, unwatched(testConfig()), unwatched(testConfig()))
		r := quick(t, w, func(c *redial.Config) { c.Silence = 8 * time.Second })
		for range 2 {
			noErr(t, tryCtx(t.Context(), r, &nullCall))
		}
		done := make(chan error, 1)
		call := blockCall
		call.Repeatable = true
		go func() { done <- tryCtx(t.Context(), r, &call) }()
		<-h.enter
		time.Sleep(127 * time.Second)
		st := r.Stats()
		if st.Silences != 0 || st.Accepted != 1 {
			t.Errorf("a slow call: %+v", st)
		}
		if asked := st.Calls - 3; asked < 12 || asked > 32 {
			t.Errorf("asked %d times in 127 s", asked)
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

// TestSilenceOfLeavers: a dead connection is given up although no caller waits as long as Silence: what counts is
// what was sent on it.
func TestSilenceOfLeavers(t *testing.T) {
	for _, stream := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newNetwork(newOnce(), unwatched(testConfig()), unwatched(testConfig()))
			w.stream = func(int) bool { return stream }
			r := quick(t, w, func(c *redial.Config) { c.Silence = 8 * time.Second })
			noErr(t, tryCtx(t.Context(), r, &nullCall))
			w.mute()
			start := time.Now()
			for r.Stats().Accepted == 1 && time.Since(start) < time.Minute {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				_ = tryCtx(ctx, r, wordCall(procList, 3)) // lost, or the first on the next connection
				cancel()
				time.Sleep(2 * time.Second) // so that looks find nobody who waits
			}
			if d := time.Since(start); d < 8*time.Second || d > 14*time.Second {
				t.Errorf("stream %v: given up after %v", stream, d)
			}
			if err := tryCtx(t.Context(), r, &nullCall); err != nil {
				t.Errorf("stream %v: the next call: %v", stream, err)
			}
			r.Close()
			w.s.Close()
			time.Sleep(time.Minute) // timeouts of what was muted
			w.end()
		})
	}
}

// TestHeldCredits: calls that were cancelled keep their credits until the server answers. They do not end a connection
// that has others; when a call waits in vain for one, the connection is given up, and the next has all.
func TestHeldCredits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newOnce()
		w := newNetwork(h, unwatched(testConfig()), unwatched(testConfig()))
		r := quick(t, w, func(c *redial.Config) { c.Silence = 8 * time.Second })
		noErr(t, tryCtx(t.Context(), r, &nullCall))
		leave := func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := tryCtx(ctx, r, &blockCall); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a call that blocks: %v", err)
			}
		}
		all := r.Stats().Credits
		for range all - 1 {
			leave()
		}
		time.Sleep(time.Minute)
		if err := tryCtx(t.Context(), r, &nullCall); err != nil || r.Stats().Accepted != 1 {
			t.Errorf("with one credit left: %v, %d connections", err, r.Stats().Accepted)
		}
		leave()
		time.Sleep(time.Minute)
		if n := r.Stats().Accepted; n != 1 {
			t.Errorf("%d connections, and nobody waits", n)
		}
		start := time.Now()
		if err := tryCtx(t.Context(), r, &nullCall); err != nil || r.Stats().Accepted != 2 || time.Since(start) > 3*time.Second {
			t.Errorf("without credits: %v after %v, %d connections", err, time.Since(start), r.Stats().Accepted)
		}
		close(h.leave)
		r.Close()
		w.end()
		time.Sleep(time.Minute)
	})
}
