package reading_test

import (
	"testing"

	"github.com/stag-rdma/stag/internal/reading"
)

// watchedReader is a Reader, and what its connection would have done: the oracle of TestReader.
type watchedReader struct {
	r       reading.Reader
	watched bool // the link is armed
	ticks   bool // Tick is called
	again   int  // readers started because of missed input
	missed  bool // input was noticed, and nobody has begun to read since
	serving bool
	held    bool // a goroutine reads
}

func (w *watchedReader) do(a reading.Action) {
	if a&reading.DoUnwatch != 0 {
		w.watched = false
	}
	if a&reading.DoAddTick != 0 {
		w.ticks = true
	}
	if a&reading.DoAgain != 0 {
		w.again++
	}
	if a&reading.DoWatch != 0 {
		w.watched = true
	}
}

// step does one thing that can happen, if it can.
func (w *watchedReader) step(event byte) {
	switch event {
	case 'c': // a call begins
		w.do(w.r.Call())
		w.r.Called()
	case 'w': // a waiter comes
		w.do(w.r.Call())
		w.take(reading.Caller)
	case 'r': // who reads is done, and somebody waits, who is woken
		if w.held {
			w.held = false
			w.do(w.r.Release(false))
			w.do(w.r.Call())
			w.take(reading.Caller)
		}
	case 'i': // who reads is done, and nobody waits
		if w.held {
			w.held = false
			w.do(w.r.Release(true))
		}
	case 'n': // input, of which the link tells once
		if w.watched {
			w.watched, w.missed = false, true
			w.notice()
		}
	case 'm': // memory is back
		w.take(reading.Watcher)
	case 't': // a tick
		if w.ticks && !w.r.TickRecent() {
			do, more := w.r.Tick(false)
			w.do(do)
			w.ticks = more
		}
	case 's': // Serve
		if do, ok := w.r.Serve(); ok {
			w.serving = true
			w.do(do)
		}
	case 'S': // its goroutine gets the role
		if w.serving {
			w.take(reading.Server)
		}
	case 'e': // the end
		if w.r.Seize(false) {
			w.r.End()
			w.watched = false
		}
	}
	if w.again > 0 {
		w.again--
		w.notice()
	}
}

func (w *watchedReader) notice() {
	if w.r.Notice() {
		w.missed, w.held = false, true
	}
}

func (w *watchedReader) take(as reading.State) {
	if w.r.Take(as) {
		w.missed, w.held = false, true
	}
}

// TestReader tries all sequences of events up to a length. Whatever has happened: input is noticed, since somebody reads,
// the link is watched, a tick will see to it, or the goroutine in Serve is about to; and the end is final.
func TestReader(t *testing.T) {
	const events = "cwrinmtsSe"
	var walk func(prefix string)
	walk = func(prefix string) {
		w := &watchedReader{}
		w.step('c') // the startup
		for i := range prefix {
			was := w.r.State()
			w.step(prefix[i])
			s := w.r.State()
			switch {
			case was == reading.Ended && s != was:
				t.Fatalf("%s: %d after the end", prefix[:i+1], s)
			case s == reading.Ended:
			case w.held != (s != reading.Free && s != reading.Watched):
				t.Fatalf("%s: somebody reads %v, state %d", prefix[:i+1], w.held, s)
			case w.missed && (s == reading.Free || s == reading.Watched):
				t.Fatalf("%s: input is forgotten in state %d", prefix[:i+1], s)
			case s == reading.Watched && !w.watched && !w.missed:
				t.Fatalf("%s: nobody watches in state Watched", prefix[:i+1])
			case s == reading.Free && !w.ticks && !w.serving:
				t.Fatalf("%s: nobody reads, watches or ticks", prefix[:i+1])
			case w.r.Active() && !w.ticks:
				t.Fatalf("%s: active without ticks", prefix[:i+1])
			}
		}
		if len(prefix) < 6 {
			for _, e := range events {
				walk(prefix + string(e))
			}
		}
	}
	walk("")
}

// TestReaderTakes: one goroutine at a time has the role; the end takes it from a running upcall.
func TestReaderTakes(t *testing.T) {
	for _, s := range []reading.State{reading.Caller, reading.Server, reading.Watcher} {
		var r reading.Reader
		if !r.Take(s) || r.State() != s {
			t.Fatalf("%d is refused", s)
		}
		if r.Take(reading.Caller) || r.Notice() || r.Seize(false) {
			t.Errorf("two goroutines read, the first as %d", s)
		}
		if do := r.Release(false); do != reading.DoAgain || r.State() != reading.Free {
			t.Errorf("after missed input: %b, state %d", do, r.State())
		}
		if r.Take(s); !r.Seize(true) || r.State() != reading.Drainer || r.Take(reading.Caller) {
			t.Errorf("the end does not get the role from %d", s)
		}
	}
}

// TestReaderParked: a goroutine that reads because the link cannot be watched stops when somebody else wants to.
func TestReaderParked(t *testing.T) {
	var r reading.Reader
	r.Call()
	if do, more := r.Tick(false); do != reading.DoWatch || more {
		t.Fatalf("%b, %v", do, more)
	}
	r.Park()
	if r.Wanted(false) || !r.Wanted(true) || r.Take(reading.Caller) {
		t.Error("it is wanted by nobody, and reads")
	}
	if do := r.Call(); do != reading.DoUnwatch|reading.DoInterrupt|reading.DoAddTick || !r.Wanted(false) {
		t.Errorf("a call begins: %b", do)
	}
}
